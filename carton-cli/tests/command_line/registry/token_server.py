"""A server of tokens for a registry (https://distribution.github.io/distribution/spec/auth/jwt/): JSON Web Tokens that a key signs.

The argument is a folder with server.key and server.pem. Prints its port. A token is valid for two seconds, and holds what is asked for, except
to read the repositories of `secret` alone.
"""

import base64
import http.server
import json
import pathlib
import sys
import time
import urllib.parse

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding

folder = pathlib.Path(sys.argv[1])
key = serialization.load_pem_private_key((folder / "server.key").read_bytes(), None)
certificate = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
LOGIN = "Basic " + base64.b64encode(b"me:se:cret").decode()


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(scopes):
    chain = [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()]
    now = int(time.time())
    access = []
    for scope in scopes:
        kind, name, actions = scope.split(":")
        if name.startswith("secret/") and actions == "pull":
            continue
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    claims = {"iss": "tests", "sub": "me", "aud": "here", "exp": now + 2, "nbf": now - 1, "iat": now, "access": access}
    parts = [json.dumps(part).encode() for part in ({"typ": "JWT", "alg": "RS256", "x5c": chain}, claims)]
    text = ".".join(map(encoded, parts))
    return text + "." + encoded(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        allowed = self.headers.get("Authorization") == LOGIN and query.get("service") == ["here"]
        body = json.dumps({"token": token(query.get("scope", []))}).encode() if allowed else b"{}"
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
