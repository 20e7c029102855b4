"""Unpacks Kubernetes' schemas from the Python package kubernetes-validate, for kubeconform: make test-kubernetes runs it.

    schemas.py WHEEL DIR VERSION...

Schemas of a version, which refuse keys that they do not know, get a folder vVERSION. Their references, which are made for a server, become
those of files beside each other.
"""
import json
import os
import sys
import zipfile

wheel, directory, *versions = sys.argv[1:]
with zipfile.ZipFile(wheel) as z:
    for version in versions:
        os.makedirs(os.path.join(directory, "v" + version), exist_ok=True)
        names = [n for n in z.namelist() if f"/v{version}-local-strict/" in n and n.endswith(".json")]
        assert names, f"{wheel} has no schemas of Kubernetes {version}"
        for name in names:
            schema = json.loads(z.read(name))
            schema.pop("$id", None)
            with open(os.path.join(directory, "v" + version, os.path.basename(name)), "w") as f:
                f.write(json.dumps(schema).replace('"/api/_definitions.json#', '"_definitions.json#'))
