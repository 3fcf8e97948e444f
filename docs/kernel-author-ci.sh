#!/bin/sh
# What a change costs, for the author of a proof checker: builds the commit before and the commit itself, runs both on
# the same exports in turns, and exits with 1 if the new one is dearer.
#
#   BUILD='cargo build --release' PROGRAM=target/release/nanoda_bin \
#       sh kernel-author-ci.sh BASE EXPORTS...
#
# BASE     what to compare with: a commit, a branch, origin/main. Its merge base with HEAD is built.
# EXPORTS  exports, folders of them, FAMILY:n, as `proofcost bench --on` takes them.
# BUILD    your build command, run by sh in a checkout of its own for each of the two commits.
# PROGRAM  the binary it makes, from the checkout's root.
# Optional:
# BENCH    more words for `proofcost bench` (--kernels FILE, --threads 4, -r 20, --timeout 10m).
# COUNTER  callgrind | none; default: callgrind where the machine counts no instructions.
# OUT      where records, summary and builds go; default: proofcost-out in the current folder.
#
# Exit status: 0 no regression, 1 a regression (or kernels that disagree), 2 a mistake in the call, or a build that failed.
# The records in OUT/store tell runs apart by kernels' names, which are the commits: keep that folder between jobs, and
# `proofcost report history OUT/store --along kernel --order OUT/order` shows since when.
set -eu

stop() {
    echo "kernel-author-ci: $*" >&2
    exit 2
}

[ $# -ge 2 ] || stop "give BASE and at least one EXPORT"
[ -n "${BUILD:-}" ] || stop "BUILD is not set: your build command, for example BUILD='cargo build --release'"
[ -n "${PROGRAM:-}" ] || stop "PROGRAM is not set: the binary that BUILD makes, for example target/release/nanoda_bin"
base=$(git merge-base "$1" HEAD) || stop "$1: no commit that HEAD has something in common with (fetch it: fetch-depth: 0)"
head=$(git rev-parse HEAD)
shift
[ "$base" != "$head" ] || stop "HEAD is the base itself: there is nothing to compare"
out=${OUT:-proofcost-out}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Both from a clean checkout by the same command: what lies about in the working tree is in neither.
build() {
    tree=$out/build/$1
    if [ ! -d "$tree" ]; then
        git worktree add --quiet --force --detach "$tree" "$1" || stop "$1: cannot be checked out"
    fi
    (cd "$tree" && sh -c "$BUILD") >"$out/build-$1.log" 2>&1 || {
        tail -n 20 "$out/build-$1.log" >&2
        stop "$1: the build failed (BUILD='$BUILD'; all of it: $out/build-$1.log)"
    }
    [ -x "$tree/$PROGRAM" ] || stop "$1: the build made no program $PROGRAM"
}
build "$base"
build "$head"

short() { git rev-parse --short=12 "$1"; }
one=$(short "$base")
two=$(short "$head")
git log --reverse --topo-order --format='%H %P' HEAD >"$out/order"

counter=${COUNTER:-}
if [ -z "$counter" ]; then
    counter=callgrind
    # doctor says `good` only where instructions are counted; its own exit status is for people.
    if proofcost doctor --json 2>/dev/null | tr -d ' \n' | grep -q '"name":"counters","status":"good"'; then
        counter=none
    fi
fi
on=
for export in "$@"; do
    case $export in
    *" "*) stop "$export: a path with a blank; link to it under another name" ;;
    esac
    on="$on --on $export"
done
[ "$counter" = none ] || on="$on --counter $counter"

# 0 and 1 (a verdict that is not as expected) have figures; anything else has none.
status=0
# shellcheck disable=SC2086 # BENCH and on are several words
proofcost bench "$one=$out/build/$base/$PROGRAM" "$two=$out/build/$head/$PROGRAM" \
    --store "$out/store" -l job=ci $on ${BENCH:-} || status=$?
[ "$status" -le 1 ] || exit "$status"

status=0
proofcost compare "$one" "$two" --data "$out/store" --gate -o "$out/summary.md" -o "$out/compare.json" || status=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/summary.md" ]; then
    cat "$out/summary.md" >>"$GITHUB_STEP_SUMMARY"
fi
git worktree remove --force "$out/build/$base" || true
git worktree remove --force "$out/build/$head" || true
exit "$status"
