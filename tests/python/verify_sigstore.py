"""Says which keyless signatures the stock library accepts for a folder: verify_sigstore.py FOLDER CONFIG IDENTITY ISSUER SIGNATURE…

Prints JSON: for each signature `null`, or why it is refused.
"""

import json
import pathlib
import sys

from model_signing import verifying

folder, config, identity, issuer, *signatures = sys.argv[1:]
results = {}
for signature in signatures:
    verifier = verifying.Config().use_sigstore_verifier(
        identity=identity, oidc_issuer=issuer, trust_config=pathlib.Path(config)
    )
    try:
        verifier.verify(folder, signature)
        results[pathlib.Path(signature).stem] = None
    except Exception as error:
        results[pathlib.Path(signature).stem] = f"{type(error).__name__}: {error}"
print(json.dumps(results, indent=1))
