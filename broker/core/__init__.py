"""The deciding part of the broker: events and the time in, actions out. Pure: no zmq, no asyncio,
no clock, no logging.
"""
