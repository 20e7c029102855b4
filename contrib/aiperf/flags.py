#!/usr/bin/env python3
"""List the names of all flags of `aiperf profile` of an installed AIPerf, or harness of AgentX, which is a line of it.

    pip install aiperf==0.13.0           # in an environment of its own
    python3 contrib/aiperf/flags.py > fixtures/aiperf-0.13.0-flags.txt
    pip install agentx-harness==1.0.12   # in another
    python3 contrib/aiperf/flags.py > fixtures/agentx-harness-1.0.12-flags.txt
"""

from aiperf.cli_commands.profile import app

names = {name for argument in app.assemble_argument_collection() if argument.show for name in argument.names}
print("\n".join(sorted(names)))
