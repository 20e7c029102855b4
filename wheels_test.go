package agentx_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// wheelsProgram makes wheels of a made-up binary twice, and asks for versions and for licences.
const wheelsProgram = `
import os, sys, tempfile, zipfile
sys.dont_write_bytecode = True
sys.path.insert(0, "contrib/python")
import test_wheels, wheels
for version, want in {"v1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3rc1", "1.2.3-4-g0abc12": "1.2.3.post4+g0abc12", "0.1.0-alpha2-dirty": "0.1.0a2+dirty",
                      "8172ed26-dirty": "0.0.0.dev0+8172ed26.dirty"}.items():
    assert wheels.pep440(version) == want, (version, wheels.pep440(version))
with tempfile.TemporaryDirectory() as out:
    binary = os.path.join(out, "agentx")
    with open(binary, "wb") as file:
        file.write(b"a program" * 1000)
    third = wheels.licences(["linux/amd64"])
    for platform, tags in wheels.PLATFORMS.items():
        path = wheels.wheel(out, binary, platform, "1.2.3", third)
        assert os.path.basename(path) == f"agentx_replay-1.2.3-py3-none-{tags}.whl", path
        test_wheels.check_files(path)
        first = open(path, "rb").read()
        assert open(wheels.wheel(out, binary, platform, "1.2.3", third), "rb").read() == first, path
    module = {"Path": "example.com/bare", "Version": "v1.0.0", "Dir": out}
    wheels.packages = lambda platform: [{"Dir": out, "Module": module}]
    try:
        wheels.licences(["linux/amd64"])
    except SystemExit as err:
        assert "without a licence: example.com/bare v1.0.0" in str(err), err
    else:
        sys.exit("a module without a licence: want an error")
`

// A wheel is the same bytes for the same binary, its tags are those of its name, and no module goes without its licence.
func TestWheels(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 on the path: the packing of wheels, their tags and licences are not tested")
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", wheelsProgram).CombinedOutput()
	require.NoError(t, err, "%s", out)
}
