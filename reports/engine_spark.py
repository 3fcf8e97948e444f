"""A Spark cluster (package `pyspark`, and Java), or Spark in this machine's own Java: `spark-local`.

This process is the driver. Its Java says what happens on stderr, in traces of a hundred lines: that goes to a file that
nobody sees, and people are told one line.

A cluster without workers answers no question and says nothing either, so somebody has to look: where for a minute there
is none, the question is given up. One worker of several may go: Spark asks the others again.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

import pyarrow as pa

from proofcost.reports.answers import OWN_EVENTS, columns
from proofcost.reports.engine import EngineError, need_package
from proofcost.reports.translation import Dialect

CONNECT_S = 5
ALONE_S = float(os.environ.get("PROOFCOST_SPARK_WAIT_S", "60"))
"""So long a question waits while there is no worker at all."""
_LOOK_S = 0.5
PARTITION_ROWS = 250_000
"""Records that one part of a grouping holds, about. Spark's own 200 parts cost seconds where few records are asked."""
_TOLD = (
    (r"File does not exist|FileNotFoundException|does not exist|FAILED_READ_FILE.FILE_NOT_EXIST",
     "a worker does not see the files; they must be where all of its workers can read them (a shared folder)"),
    (r"All masters are unresponsive|Master removed our application|SparkContext was shut down|has been stopped",
     "the cluster went away under the question"),
    (r"OutOfMemoryError|Java heap space|maxResultSize", "out of memory; choose fewer records with --where, or give it "
     "more (spark.driver.memory, spark.executor.memory in spark-defaults.conf)"),
    (r"Connection refused|Answer from Java side is empty|Error while sending or receiving|Connection reset",
     "its driver died under the question"),
    (r"Lost executor|ExecutorLostFailure|FetchFailed", "workers were lost again and again"),
)  # fmt: skip
"""What is found in a trace, and what it means."""


class Spark:
    """Raises EngineError, as Engine says."""

    dialect = Dialect.SPARK

    def __init__(self, name: str) -> None:
        self.name = name
        self._local = name.startswith("spark-local")
        need_package(name, "pyspark")
        java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else "java"
        if shutil.which(java) is None:
            raise EngineError(
                f"--engine {name}: no Java here; it needs one of version 17 or newer (openjdk-17-jre-headless)"
            )
        here = None if self._local else self._reached()
        for logger in ("py4j", "pyspark"):
            logging.getLogger(logger).addHandler(logging.NullHandler())
            logging.getLogger(logger).propagate = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the Java that writes to it
        self._asking = ThreadPoolExecutor(1, "spark")
        self._jvm: Any = None
        self._session: Any = self._waited(lambda: self._start(here), begun=False)

    def _reached(self) -> str:
        """The address of this machine as the master sees it. Raises EngineError."""
        why = "no answer"
        for one in self.name.removeprefix("spark://").split(","):
            host, _, port = one.rpartition(":")
            try:
                with socket.create_connection((host.strip("[]"), int(port)), CONNECT_S) as reached:
                    return str(reached.getsockname()[0])
            except (OSError, ValueError, OverflowError) as error:
                why = getattr(error, "strerror", None) or str(error) or "no answer"
        raise EngineError(f"--engine {self.name}: no master there: {why}; start one, or name another host and port")

    def _start(self, here: str | None) -> Any:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        conf = SparkConf()
        master = self.name.replace("spark-local", "local") if self._local else self.name
        settings = {
            "spark.master": "local[*]" if master == "local" else master,
            "spark.app.name": "proofcost",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": "true",
            "spark.driver.maxResultSize": "0",
            "spark.sql.parquet.mergeSchema": "false",
        }
        if here is not None and "SPARK_LOCAL_IP" not in os.environ:
            settings["spark.driver.host"] = here
        for key, value in settings.items():
            conf.set(key, value)
        gateway = SparkContext._gateway
        if gateway is not None and gateway.proc is not None and gateway.proc.poll() is not None:
            _forget()
        old = SparkContext._active_spark_context
        if old is not None:  # of another cluster: a process has one
            old.stop()
        if SparkContext._gateway is None:
            launch: Any = launch_gateway
            SparkContext._gateway = launch(conf, {"stderr": self._said, "stdout": self._said})
            SparkContext._jvm = SparkContext._gateway.jvm
        self._jvm = SparkContext._gateway.proc
        return SparkSession(SparkContext(conf=conf))

    @property
    def alive(self) -> bool:
        if self._jvm is None or self._jvm.poll() is not None:
            return False
        try:
            return not self._session.sparkContext._jsc.sc().isStopped()
        except Exception:  # noqa: BLE001  # what does not answer that is not alive
            return False

    def open(self, view: str, files: Sequence[str], rows: int) -> None:
        from pyspark.sql import functions
        from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

        kinds = {"VARCHAR": StringType(), "BIGINT": LongType(), "BOOLEAN": BooleanType()}
        schema = StructType([StructField(name, kinds[kind]) for name, kind in columns()])
        names = [re.sub("^s3://", "s3a://", name) if "://" in name else f"file://{name}" for name in files]

        def read() -> None:
            least = self._session.sparkContext.defaultParallelism
            parts = min(max(rows // PARTITION_ROWS, least, 1), 2000)
            self._session.conf.set("spark.sql.shuffle.partitions", str(parts))
            # Else a folder's name (host=...) would stand for a column of the files.
            reader = self._session.read.schema(schema).option("recursiveFileLookup", "true")
            found = reader.parquet(*names).withColumnRenamed("events", OWN_EVENTS)
            events = functions.coalesce(functions.col(OWN_EVENTS), functions.col("form_started"))
            found.withColumn("events", events).createOrReplaceTempView(view)

        self._waited(read)

    def view(self, view: str, query: str) -> None:
        self._waited(lambda: self._session.sql(query).createOrReplaceTempView(view))

    def ask(self, query: str) -> pa.Table:
        return self._waited(lambda: self._session.sql(query).toArrow())

    def _waited(self, work: Callable[[], Any], begun: bool = True) -> Any:
        """What `work` returns, done in a thread of its own while this one looks after the workers."""
        doing: Future[Any] = self._asking.submit(_quiet, work)
        seen = time.monotonic()
        while True:
            try:
                return doing.result(_LOOK_S)
            except NotYet:
                if not begun or self._local or self._workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > ALONE_S:
                    self._give_up()
                    raise EngineError(
                        f"--engine {self.name}: no worker for {ALONE_S:g} s: it has none left that is free; start "
                        "workers (or end what holds them), and ask again",
                        True,
                    ) from None
            except Exception as error:  # noqa: BLE001  # whatever py4j makes of the last words of a Java that dies
                raise EngineError(f"--engine {self.name}: {_one_line(error)}", begun) from None

    def _workers(self) -> bool:
        try:
            return int(self._session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) > 1
        except Exception:  # noqa: BLE001  # then the question fails as well, and says why
            return True

    def _give_up(self) -> None:
        """End the Java: nobody else waits for what it was asked."""
        if self._jvm is not None:
            self._jvm.kill()
            _forget()


def _forget() -> None:
    """Have nothing left of a Java that is dead."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _quiet(work: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions of packages that are not used here
        return work()


def _one_line(error: BaseException) -> str:
    text = str(error)
    if type(error).__name__.startswith("Py4J") and not text.strip("' "):
        text = "Answer from Java side is empty"
    for pattern, meaning in _TOLD:
        if re.search(pattern, text):
            return meaning
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    first = next(
        (line for line in lines if not line.startswith("An error occurred while calling")), type(error).__name__
    )
    return re.sub(r"^: *([a-z]+\.)+[A-Za-z]+(Exception|Error): *", "", first)[:300]
