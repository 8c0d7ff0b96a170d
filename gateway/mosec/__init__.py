"""How MOSEC's clients are answered, at the routes of pipelines that say so.

Chosen once for each catalog: a gateway without such pipelines has nothing of it on its way.
"""
