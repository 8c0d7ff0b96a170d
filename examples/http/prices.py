"""The other service, a stand-in: what articles cost. `python prices.py [--port 8100]`"""

import argparse

from aiohttp import web

PRICES = {"flour": 1.25, "bran": 0.5, "millstone": 480.0}


async def price(request: web.Request) -> web.Response:
    article = request.query.get("article", "")
    if article not in PRICES:
        return web.json_response({"error": "unknown article"}, status=404)
    return web.json_response({"article": article, "price": PRICES[article]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8100)
    app = web.Application()
    app.router.add_get("/prices", price)
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port)


if __name__ == "__main__":
    main()
