# What the scripts contrib/NAME/run share. They source it; it goes to the root of the checkout. What they download stays below CACHE.
set -eu
name=$(basename "$(dirname "$0")")
cd "$(dirname "$0")/../.."
export CACHE="${CACHE:-$PWD/.cache}" CGO_ENABLED=0
mkdir -p "$CACHE"

# skip REASON ends a run that this machine does not allow.
skip() {
	echo "$name: skipped: $*"
	exit 0
}

# environment NAME PACKAGE... makes, once, a virtual environment with packages of PyPI: $venv.
environment() {
	command -v python3 >/dev/null || skip "there is no python3"
	venv=$CACHE/venv-$1
	shift
	test -e "$venv/complete" ||
		{ python3 -m venv --clear "$venv" && "$venv/bin/pip" install --quiet "$@" && touch "$venv/complete"; } ||
		skip "no environment with $*: see above"
}

# asset NAME prints the file of ranks of a vocabulary, o200k_base or cl100k_base.
asset() {
	go mod download github.com/pkoukk/tiktoken-go-loader
	echo "$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/$1.tiktoken"
}
