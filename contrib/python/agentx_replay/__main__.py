"""python -m agentx_replay is the program. On Windows so is the script agentx, which elsewhere is agentx.sh."""
import os
import subprocess
import sys

from . import binary


def main():
    command = [binary(), *sys.argv[1:]]
    if os.name != "nt":
        os.execv(command[0], command)
    child = subprocess.Popen(command)  # execv of Windows returns to the shell at once
    while True:
        try:
            sys.exit(child.wait())
        except KeyboardInterrupt:  # the program had it too, and ends as it does
            continue


def agentx():
    ours, folders = os.path.dirname(binary()), os.environ.get("PATH", "").split(os.pathsep)
    others = [f for f in folders if os.path.isfile(os.path.join(f, "agentx.exe")) and os.path.realpath(f) != os.path.realpath(ours)]
    if others and "--quiet" not in sys.argv and not os.environ.get("AGENTX_QUIET"):
        print(f"agentx: note: this is agentx of agentx-replay; the PATH also has one in {others[0]}: agentx-replay is this one's own name",
              file=sys.stderr, flush=True)
    main()


if __name__ == "__main__":
    main()
