"""A real Chromium without a window, and what tests ask of the page in it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

# No sandbox: the tests run as root, on our own pages. The rest keeps the browser itself from the network.
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=1300,1000",
    "--force-device-scale-factor=1", "--lang=en",
)  # fmt: skip


class Browser:
    """One window. Whatever a page complained of or asked the network for since `open` can be read."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        self.requests(), self.complaints()
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def tell(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, parameters)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def head(self, title: str) -> WebElement:
        """The button of a column's head."""
        return self.driver.find_element(By.XPATH, f"//table[contains(@class,'data')]//th//button[.='{title}']")

    def type(self, label: str, text: str) -> None:
        """Put a text into the field of this accessible name, or choose it there."""
        field = self.find(f'[aria-label="{label}"]')
        if field.tag_name == "select":
            Select(field).select_by_visible_text(text or "all")
            return
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(text)

    def column(self, number: int) -> list[str]:
        """Texts of one column of the first table, as they stand."""
        script = """return [...document.querySelector('table.data').tBodies[0].rows]
            .map((row) => row.cells[arguments[0]].textContent.replace(/\\s+/g, ' ').trim())"""
        found: list[str] = self.run(script, number)
        return found

    def style(self, selector: str, name: str) -> str:
        found: str = self.run(
            "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name
        )
        return found

    def media(self, **features: str) -> None:
        self.tell("Emulation.setEmulatedMedia", features=[
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ])  # fmt: skip

    def complaints(self) -> list[str]:
        """What the console said since the last time."""
        return [line["message"] for line in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """Every address that the page asked for since the last time."""
        log = [json.loads(line["message"])["message"] for line in self.driver.get_log("performance")]  # type: ignore[no-untyped-call]
        return [one["params"]["request"]["url"] for one in log if one["method"] == "Network.requestWillBeSent"]

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of everything, as assistive technology is told them."""
        nodes = self.tell("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"] and "role" in node
        ]


@contextmanager
def browser(chromium: Path, chromedriver: Path, folder: Path) -> Iterator[Browser]:
    options = Options()
    options.binary_location = str(chromium)
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(chromedriver)))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
