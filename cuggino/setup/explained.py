"""What each setting is for, in a sentence: the questions of `cuggino setup` and the configuration's JSON Schema say it.

Types, ranges, choices and defaults are not here: they are the structs' in `cuggino.config`.
"""

from __future__ import annotations

from collections.abc import Mapping

EXPLAINED: Mapping[str, str] = {
    "specsPath": "The folder of your specs, below the project's root: agents read them and never change them.",
    "maxIterations": "How often a loop may plan; a review that asks for changes leads to a new plan.",
    "setupCommand": "A shell command to run once after each planning, such as one that starts a database.",
    "checkCommand": "A shell command, such as your tests, whose result implementers and reviewers are told.",
    "validateCommand": "A shell command that a watch runs after some finished items; without it, checkCommand.",
    "commit": "Whether to commit what each implementer has done.",
    "audit": "Whether a watch that waits has an agent look for what a person should decide.",
    "agent": "The program that plans, implements and reviews.",
    "agents": "Another program for single roles.",
    "agents.planner": "The program that plans; without one, that of `agent`.",
    "agents.implementer": "The program that implements; without one, that of `agent`.",
    "agents.reviewer": "The program that reviews; without one, that of `agent`.",
    "agents.audit": "The program that audits; without one, that of `agent`.",
    "model": "The model to ask the agent for, in the agent's own words; without one, its default.",
    "limits": "What ends an agent, a command or a loop.",
    "limits.idleTimeout": "For how many seconds an agent may be silent; a tool that runs is not silence.",
    "limits.agentTimeout": "How many seconds one run of an agent may take.",
    "limits.commandTimeout": "How many seconds a setup, check or validate command may take; without it, any number.",
    "limits.nudges": "How often, in one turn, an agent that ended without an answer is asked again.",
    "limits.retries": "How often, in one turn, an agent is started again whose provider cannot serve it.",
    "limits.maxTasks": "How many tasks an implementer may finish with one plan before the loop is given up.",
    "limits.maxCostUsd": "How many US dollars one loop may cost; without it, any number.",
    "limits.maxRuntime": "How many seconds one loop may be at work; without it, any number.",
    "spawn": "Sandboxes: where they are and what agents may do there.",
    "spawn.root": "The folder in which sandboxes are made; without it, one below $XDG_STATE_HOME/cuggino.",
    "spawn.include": "Files that git ignores and the work needs, such as .env: they are copied into sandboxes.",
    "spawn.secrets": "Secrets that a sandbox may ask for, by reference: env:NAME or file:PATH.",
    "spawn.neverAllow": "Commands and paths that no sandbox is ever allowed, whatever an agent asks for.",
    "spawn.launcher": "A command that is put before the agent's, to start it in a jail or on another machine.",
    "spawn.integrate": "How finished work comes home: a pull request, a merge, or a branch to look at.",
    "spawn.repairAttempts": "How often an agent may repair work that cannot be brought home as it is.",
    "ci": "Watching the checks and reviews of a pull request.",
    "ci.threads": "The review threads to act on: all, those of bots, or none.",
    "ci.trustedBots": "Bots whose review comments may be acted on.",
    "ci.maxIterations": "How often a CI watch looks before it ends.",
    "notify": "A program that is told when something happens.",
    "notify.command": "The program and its arguments; it gets the event as JSON on its stdin.",
    "notify.events": "The names of the events that it is told.",
}
