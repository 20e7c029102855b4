# agentx: two commands for a newcomer, the rest for its developers, which CONTRIBUTING.md lists.
#   make demo    build, convert the embedded corpus, serve the mock, replay, print a summary and what to do next
#   make test    every test that needs nothing but Go: fifteen minutes of CPU the first time, half of them building
VERSION ?= $(patsubst v%,%,$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))
COMMIT  ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION) -X main.commit=$(COMMIT)
CACHE   ?= $(CURDIR)/.cache
DIST    ?= dist
GO      := CGO_ENABLED=0 go

# What needs more than Go: contrib/NAME/run fetches it from package registries, or skips with the reason.
EXTERNAL := arrow browser capture-clients claude-code datasets dynamo harness hub-reference inferencex kubernetes nfs ray real slurm windows
.PHONY: demo build test test-long test-mutants test-race test-load test-parts test-lanes test-soak test-simulate test-fit test-capture-day test-scale fuzz lint docs \
	bench bench-lateness bench-start wheels test-wheels test-image test-tokenizers test-exact test-claude-logs test-oracle test-bodies test-schedule $(EXTERNAL:%=test-%)

demo: build
	./agentx demo
build:
	@test -e agentx || echo "building agentx: about three minutes of CPU the first time, then seconds"
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o agentx ./cmd/agentx
test:
	@echo "about fifteen minutes of CPU the first time, half of them building; a line for each package when it is done"
	GOGC=400 $(GO) test -vet=off -ldflags="-s -w" -timeout 30m ./...
	cd examples/csv && $(GO) test -vet=off -ldflags="-s -w" ./...
lint:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	for system in "" windows darwin; do GOOS=$$system go vet ./... || exit 1; done
	go tool -modfile=tools/go.mod staticcheck ./...
	go tool -modfile=tools/go.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yml examples/github/*.yml
docs: build
	./agentx help manual >doc/agentx.1
	./agentx help settings.md >doc/settings.md
	./agentx help metrics.md >doc/metrics.md
	./agentx help llms.txt >llms.txt

test-race: # needs a C compiler
	go test -race -short -timeout 30m ./cmd/internal/capture/... ./convert ./hfsource/... ./internal/... ./mmapcache/... ./replay/... ./report ./cmd/internal/report/live
test-long:
	AGENTX_LONG=1 $(GO) test -run 'Long' -timeout 60m -v ./convert ./hfsource/hub ./cmd/internal/report/until ./cmd/internal/report/interval
	AGENTX_LONG=1 $(GO) test -run '^Test(TooManyTreesWait|PartsBeginAsOneClient|PartsPlayEachTraceOnce)$$' -v ./replay
	AGENTX_LONG=1 $(GO) test -run '^TestCanariesOfImport$$' -timeout 60m -v ./cmd/agentx
	AGENTX_LONG=1 $(GO) test -run '^Test(LargeRunsFit|LongPieces|FormsOfPublicTraces)$$' -v ./cmd/internal/report/html ./internal/tokenizer ./replay/payload
	AGENTX_LONG=1 $(GO) test -run '^Test(WholeTraces|Agents)$$' -v ./cmd/internal/simulate/fleet
	AGENTX_LONG=1 $(GO) test -run '^Test(RandomReplays|NothingOutlivesItsTree|WorkOfAnEventIsBounded|HourOf256Lanes|ArrivalsOnManyLanes)$$' -v ./replay/conductor
test-mutants:
	AGENTX_MUTANTS=1 go test -run '^TestMutants$$' -count=1 -timeout 60m -v ./replay
test-load:
	AGENTX_LOAD=1 $(GO) test -run '^TestManyLanes$$' -count=1 -v ./replay
test-parts:
	AGENTX_PARTS=1 $(GO) test -run '^TestPartsAgainstTheLogOfTheServer$$' -count=1 -v ./cmd/agentx
test-lanes: # 16 parts of so many lanes
	AGENTX_LANES=$(or $(LANES),1024) $(GO) test -run '^TestPartsOfManyLanes$$' -count=1 -v ./cmd/agentx
test-soak:
	AGENTX_SOAK=$(or $(SOAK),30m) $(GO) test -run '^TestSoak$$' -count=1 -timeout 0 -v ./replay
test-simulate:
	AGENTX_SIMULATE=$(or $(SIMULATE),1h) $(GO) test -run '^TestRandom(Engines|Fleets)$$' -count=1 -timeout 0 -v ./cmd/internal/simulate/engine ./cmd/internal/simulate/fleet
test-fit: # so many seeds, of five structures and three lengths
	AGENTX_FIT=$(or $(SEEDS),4) $(GO) test -run '^TestManyStructuresAreFound$$' -count=1 -timeout 0 -v ./cmd/internal/simulate/fit
test-capture-day:
	AGENTX_CAPTURE_DAY=$(or $(DAY),1h) $(GO) test -run '^TestCaptureDay$$' -count=1 -timeout 0 -v ./cmd/agentx
test-scale:
	AGENTX_SCALE=$(or $(SCALE),60000) $(GO) test -run '^TestScale$$' -count=1 -timeout 0 -v ./cmd/agentx
fuzz: # to make each input that reaches something new short, Go would take 60 seconds, in which a target of long files tries no other
	grep -ro --include=*_test.go '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |' | sort | while read -r dir name; do \
		go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(FUZZTIME),30s) -fuzzminimizetime 100x "$$dir" || exit 1; done
bench:
	go test -run '^$$' -bench . -skip '^BenchmarkLateness$$' -benchtime 2s ./internal/pyrand ./internal/tokenizer ./convert/... ./mmapcache ./replay/... ./report ./cmd/internal/aiperf/... ./cmd/internal/capture ./cmd/internal/capture/imports
bench-lateness:
	$(GO) test -run '^$$' -bench BenchmarkLateness -benchtime 5x ./replay
bench-start: build
	AGENTX_PROGRAM=$(CURDIR)/agentx go test -run '^$$' -bench BenchmarkStart -benchtime 10x ./cmd/agentx

wheels:
	python3 contrib/python/wheels.py $(DIST) $(VERSION) $(COMMIT) $(WHEELS)
test-wheels:
	contrib/python/run
test-image:
	$(GO) build -trimpath -ldflags "-s -w $(LDFLAGS)" -o $(CACHE)/image/agentx ./cmd/agentx
	contrib/image/run $(CACHE)/image/agentx $(CACHE)/image
test-oracle test-bodies test-schedule: test-%:
	contrib/aiperf/run $*
test-claude-logs: # DIR: a directory of logs of your own, or claude:; prints numbers alone
	AGENTX_LOGS="$(DIR)" $(GO) test -vet=off -count 1 -run TestOwnLogs -v ./convert
test-tokenizers test-exact: test-%:
	contrib/tokenizers/run $*
$(EXTERNAL:%=test-%): test-%:
	contrib/$*/run
