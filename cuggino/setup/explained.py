"""A sentence about each setting, for the questions of `cuggino setup` and the configuration's JSON Schema.

Types, ranges, choices and defaults are defined by the structs in `cuggino.config`.
"""

from __future__ import annotations

from collections.abc import Mapping

EXPLAINED: Mapping[str, str] = {
    "specsPath": "Directory of your specs, relative to the project root; agents read it and never change it.",
    "maxIterations": "Maximum number of plans in a loop; a review that requests changes leads to a new plan.",
    "setupCommand": "Shell command to run once after each planning, for example to start a database.",
    "checkCommand": "Shell command, such as your tests, whose result goes to implementers and reviewers.",
    "validateCommand": "Shell command that a watch runs after some finished items; defaults to checkCommand.",
    "gate": "Whether neither DONE nor an approval counts while the check command fails.",
    "commit": "Whether to commit the work of each implementer.",
    "audit": "Whether a waiting watch has an agent look for what a person should decide.",
    "agent": "Program that plans, implements and reviews.",
    "agents": "Other programs for single roles.",
    "agents.planner": "Program that plans; defaults to `agent`.",
    "agents.implementer": "Program that implements; defaults to `agent`.",
    "agents.reviewer": "Program that reviews; defaults to `agent`.",
    "agents.audit": "Program that audits; defaults to `agent`.",
    "model": "Model to request, as the agent names it; defaults to the agent's own default.",
    "limits": "Limits for agents, commands and loops.",
    "limits.idleTimeout": "Maximum seconds without output from an agent; a running tool counts as activity.",
    "limits.agentTimeout": "Maximum seconds for one run of an agent.",
    "limits.commandTimeout": "Maximum seconds for a setup, check or validate command; unlimited by default.",
    "limits.nudges": "Maximum number of times per turn to ask an agent again that ended without an answer.",
    "limits.retries": "Maximum number of times per turn to restart an agent whose provider is unavailable.",
    "limits.maxTasks": "Maximum number of tasks that an implementer can finish with one plan.",
    "limits.maxCostUsd": "Maximum cost of a loop in US dollars; unlimited by default.",
    "limits.maxRuntime": "Maximum working time of a loop in seconds; unlimited by default.",
    "spawn": "Sandboxes: where they are and what agents may do in them.",
    "spawn.root": "Directory for sandboxes; defaults to one in $XDG_STATE_HOME/cuggino.",
    "spawn.include": "Git-ignored files that the work needs, such as .env; copied into sandboxes.",
    "spawn.secrets": "Secrets that a sandbox may request, as references: env:NAME or file:PATH.",
    "spawn.neverAllow": "Commands and paths that no sandbox is ever allowed, whatever an agent requests.",
    "spawn.launcher": "Command to put before the agent's own, to start it in a jail or on another machine.",
    "spawn.integrate": "How to integrate finished work: as a pull request, a merge, or only a branch.",
    "spawn.repairAttempts": "Maximum number of times an agent may repair work that cannot be integrated.",
    "ci": "Watching the checks and reviews of a pull request.",
    "ci.threads": "Review threads to act on: all, only those of bots, or none.",
    "ci.trustedBots": "Bots whose review comments may be acted on.",
    "ci.maxIterations": "Maximum number of polls of a CI watch.",
    "notify": "Program to notify of events.",
    "notify.command": "Program and arguments; it gets the event as JSON on stdin.",
    "notify.events": "Names of the events to send to it.",
}
