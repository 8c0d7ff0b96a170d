"""The number of each kind of message: the first element of its array on the wire.

A number is never used again, for whatever comes later: the next one is above all of these.
"""

KINDS = {
    "GatewayHello": 1,
    "Submit": 2,
    "Cancel": 3,
    "GatewayBeat": 4,
    "WorkerHello": 5,
    "Results": 6,
    "Renew": 7,
    "WorkerBeat": 8,
    "WorkerDraining": 9,
    "SupervisorHello": 10,
    "SupervisorBeat": 11,
    "Bye": 12,
    "Ask": 13,
    "Gone": 14,
    "Steps": 15,
    "Credit": 16,
    "Observations": 17,
    "ComparerHello": 18,
    "Compared": 19,
    "WorkerFigures": 30,
    "Welcome": 33,
    "Who": 34,
    "Refused": 35,
    "Beat": 36,
    "Report": 37,
    "Catalog": 38,
    "Answers": 39,
    "Unknown": 40,
    "Batch": 41,
    "Dismiss": 42,
    "Kill": 43,
    "Free": 44,
    "Claims": 45,
    "Excuse": 46,
    "Values": 47,
    "StreamCredit": 48,
    "StreamStop": 49,
    "Want": 50,
    "Compare": 51,
    "Tend": 52,
    "Traces": 53,
}


def kind(name: str) -> int:
    """Of the message whose struct has this name (msgspec asks when it makes the class)."""
    return KINDS[name]
