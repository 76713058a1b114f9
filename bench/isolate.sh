#!/usr/bin/env bash
# Runs a command on one core, and away from what else the machine does: isolate.sh CORE COMMAND [ARGUMENT...]
#
# Linux shares a core between sessions first and between their processes afterwards (autogroup, see sched(7)), so a nice
# level counts only inside a session. The command gets a session of its own whose weight is raised; a compiler that runs
# on the same machine then costs it little. Raising takes root or CAP_SYS_NICE; without that it goes on as it is.
set -euo pipefail
core=$1
shift
# shellcheck disable=SC2016 # The inner shell expands them.
exec setsid --wait bash -c '
  { echo -15 >/proc/self/autogroup; } 2>/dev/null || true
  core=$1; shift
  if [ "$(nproc --all)" -gt 1 ]; then exec taskset -c "$core" "$@"; else exec "$@"; fi
' isolate "$core" "$@"
