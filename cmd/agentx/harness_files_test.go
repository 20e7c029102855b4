package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The files of a run, which both tools write.
const (
	rowsFile        = "profile_export.jsonl"
	aggregateFile   = "profile_export_aiperf.json"
	tableFile       = "profile_export_aiperf.csv"
	slicesFile      = "profile_export_aiperf_timeslices.json"
	slicesTableFile = "profile_export_aiperf_timeslices.csv"
	consoleFile     = "profile_export_console.txt"
	serverFile      = "server_metrics_export.json"
	serverTableFile = "server_metrics_export.csv"
)

// looseRow are members of a row that are instants, times, names of one run, or follow the reads of a connection.
var looseRow = regexp.MustCompile(`metadata\.(session_num|.*_ns|x_.*_id|.*correlation_id|worker_id|record_processor_id)$` +
	`|metrics\.(http_req_(sending|dns_lookup|blocked|connecting|connection_overhead|connection_reused|duration|waiting|receiving|total|chunks_received)|.*latency|.*duration|time_to_.*|.*throughput.*)\.value(\[|$)`)

// looseUnits are units of what takes time.
var looseUnits = []string{"ms", "sec", "tokens/sec", "tokens/sec/user", "requests/sec"}

// looseAggregate are members of an aggregate that are no numbers of requests.
var looseAggregate = regexp.MustCompile(`(^|\.)(benchmark_id|start_time|end_time|.*_ns)$` +
	`|\.(effective|active)_\w+\.\w+$|\.tokens_in_flight\.\w+$|\.http_req_(chunks_received|connection_reused)\.\w+$|\.output_token_throughput_per_user\.count$`)

// looseMember are what agentx adds, and the metric of a request that it does not have if one read brought its whole answer.
var looseMember = regexp.MustCompile(`^(row|\.metadata)\.agentx$|\.output_token_throughput_per_user$`)

// scatteredBlocks returns the metrics of an object that the harness writes in the order of a set, which is another one in each of its runs:
// all of rows, slices and the warmup, and of the aggregate those behind the ones that it names itself.
func scatteredBlocks(path string, keys []string) []string {
	switch path {
	case "":
		return keys[slices.Index(keys, "warmup_metrics")+1 : max(1, slices.Index(keys, "metadata"))]
	case "row.metrics", ".warmup_metrics", ".timeslices[0]":
		return keys
	}
	return nil
}

// looseServer are members of server metrics that follow the instants of scrapes.
var looseServer = regexp.MustCompile(`benchmark_id$|_time$|_ns$|endpoint_info\..*\.\w+$|timeslices|stats\.(total|rate|rate_\w+)$`)

// compareFiles compares the files of two runs. Values of the aggregate are compared if both sent the same requests, else only which there
// are.
func compareFiles(t *testing.T, theirs, ours *harnessRun, p *harnessPair, equal bool) {
	names := theirs.files(t)
	assert.Equal(t, names, ours.files(t), "files")
	has := func(name string) bool { return slices.Contains(names, name) && slices.Contains(ours.files(t), name) }
	tell(t, rowsFile, compareRows(t, theirs, ours))
	tell(t, aggregateFile, compareAggregates(t, theirs, ours, p, equal))
	d := differing{loose: func(path string) bool { return !equal || looseServer.MatchString(path) }, found: map[string]string{}}
	d.files(t, theirs, ours, serverFile)
	tell(t, serverFile, d.found)
	ours.checkCounts(t)
	if has(slicesFile) {
		d = differing{loose: func(string) bool { return true }, scatters: scatteredBlocks, found: map[string]string{}}
		a, b := theirs.json(t, slicesFile), ours.json(t, slicesFile)
		if list, other := a.at("timeslices"), b.at("timeslices"); len(list.members) > 0 && len(other.members) > 0 { // the first ones have the first request
			list.members, other.members = list.members[:1], other.members[:1]
			d.strict = true
		}
		d.compare("", &a, &b)
		tell(t, slicesFile, d.found)
	}
	for _, name := range []string{tableFile, slicesTableFile, serverTableFile} {
		if has(name) {
			tell(t, name, compareTexts(theirs.tableLines(t, name), ours.tableLines(t, name)))
		}
	}
	tell(t, consoleFile, compareTexts(theirs.consoleLines(t), ours.consoleLines(t)))
}

// checkCounts compares the counter of the server with the requests of each phase. That of the harness may have one of the next phase: its
// last scrape may come behind that.
func (r *harnessRun) checkCounts(t *testing.T) {
	warmup := 0
	for _, q := range r.requests {
		if q.key.phase == "warmup" {
			warmup++
		}
	}
	file := r.json(t, serverFile)
	for member, want := range map[string]int{"metrics": len(r.server.sent) - warmup, "warmup_metrics": warmup} {
		series := file.at(member, "vllm:request_success", "series")
		if assert.Len(t, series.members, 1, member) {
			assert.Equal(t, strconv.Itoa(want)+".0", series.members[0].at("stats", "total").text, "requests that the server counted: %s", member)
		}
	}
}

// files returns which of the files a run wrote.
func (r *harnessRun) files(t *testing.T) (names []string) {
	for _, name := range []string{rowsFile, aggregateFile, tableFile, slicesFile, slicesTableFile, consoleFile, serverFile, serverTableFile} {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// compareRows compares the rows of requests that both sent.
func compareRows(t *testing.T, theirs, ours *harnessRun) map[string]string {
	d := differing{loose: looseRow.MatchString, scatters: scatteredBlocks, absent: looseMember.MatchString, found: map[string]string{}}
	of := ours.index()
	for k := range theirs.requests {
		x := &theirs.requests[k]
		if y := of[x.key]; y != nil {
			a, b := readNode(t, x.line), readNode(t, y.line)
			d.compare("row", &a, &b)
		}
	}
	return d.found
}

// compareAggregates compares the aggregates of two runs.
func compareAggregates(t *testing.T, theirs, ours *harnessRun, p *harnessPair, equal bool) map[string]string {
	a := theirs.json(t, aggregateFile)
	timed, busy := map[string]bool{}, theirs.busy(p) || ours.busy(p)
	a.each("", func(path string, n *node) {
		if slices.Contains(looseUnits, n.at("unit").text) {
			timed[path] = true
		}
	})
	d := differing{found: map[string]string{}, scatters: scatteredBlocks, absent: looseMember.MatchString}
	d.loose = func(path string) bool {
		k := strings.LastIndexByte(path, '.')
		return !equal || looseAggregate.MatchString(path) || busy && strings.HasPrefix(path, ".branch_stats.") || timed[path[:k]] && path[k:] != ".count" && path[k:] != ".unit"
	}
	d.files(t, theirs, ours, aggregateFile)
	return d.found
}

// busy reports whether a request was sent or ended near the end of the sending: whether it spawned children before or after that follows
// from a millisecond.
func (r *harnessRun) busy(p *harnessPair) bool {
	return slices.ContainsFunc(r.requests, func(q playedRequest) bool {
		return q.key.phase == "profiling" && max(q.at, q.end) > p.duration()-edgeOfSending
	})
}

// json reads a file.
func (r *harnessRun) json(t *testing.T, name string) node {
	return readNode(t, []byte(r.text(t, name)))
}

// files compares a JSON file of two runs.
func (d *differing) files(t *testing.T, theirs, ours *harnessRun, name string) {
	a, b := theirs.json(t, name), ours.json(t, name)
	d.compare("", &a, &b)
}

// compareTexts compares what people read of two runs: lines of one that the other does not have, and the order of those of both.
func compareTexts(theirs, ours []string) map[string]string {
	found := map[string]string{}
	for k, pair := range [][2][]string{{theirs, ours}, {ours, theirs}} {
		for _, line := range pair[0] {
			if !slices.Contains(pair[1], line) {
				found[line] = []string{"the harness", "agentx"}[k] + " alone: " + line
			}
		}
	}
	if len(found) == 0 && !slices.Equal(theirs, ours) {
		k := samePrefix(theirs, ours)
		found["order"] = fmt.Sprintf("line %d of %d and %d: %q and %q", k+1, len(theirs), len(ours), theirs[k:min(k+1, len(theirs))], ours[k:min(k+1, len(ours))])
	}
	return found
}

var cellNumber = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

// tableLines returns the lines of a CSV with zeros for digits, as many as there are behind the point, and with its line ends. Slices of
// time are taken up to the end of the first.
func (r *harnessRun) tableLines(t *testing.T, name string) (list []string) {
	for line := range strings.Lines(r.text(t, name)) {
		if name == slicesTableFile && strings.HasPrefix(line, "1,") {
			break
		}
		cells := strings.Split(strings.TrimRight(line, "\r\n"), ",")
		for k, c := range cells {
			if cellNumber.MatchString(c) {
				_, decimals, point := strings.Cut(c, ".")
				cells[k] = "0" + map[bool]string{true: "."}[point] + strings.Repeat("0", len(decimals))
			} else if strings.HasPrefix(c, "# benchmark_id") {
				cells[k] = "# benchmark_id"
			}
		}
		list = append(list, fmt.Sprintf("%q", strings.Join(cells, ",")+line[len(strings.TrimRight(line, "\r\n")):]))
	}
	return list
}

// consoleLines returns the titles and the first columns of the tables of a console, without what is said in sentences. Metrics with failures,
// which the harness writes in the order of a set, come last.
func (r *harnessRun) consoleLines(t *testing.T) (list []string) {
	var adjusted []string
	for line := range strings.Lines(r.text(t, consoleFile)) {
		cells := strings.FieldsFunc(strings.Trim(line, " │┃\n"), func(c rune) bool { return strings.ContainsRune("│┃", c) })
		switch {
		case len(cells) < 3 && !strings.Contains(line, "AIPerf | "):
		case strings.Contains(cells[0], "(error-adjusted)"):
			adjusted = append(adjusted, strings.TrimSpace(cells[0]))
		default:
			list = append(list, strings.TrimSpace(cells[0]))
		}
	}
	slices.Sort(adjusted)
	return append(list, adjusted...)
}

// text reads a file, with words for the address of the server and the directory of the run.
func (r *harnessRun) text(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(r.dir, name))
	require.NoError(t, err)
	plain := strings.ReplaceAll(string(text), r.dir, "/artifacts")
	if r.server != nil {
		plain = strings.ReplaceAll(plain, strings.TrimPrefix(r.server.url, "http://"), "server")
	}
	return plain
}

// harnessReader is a program that reads the files of the harness.
type harnessReader struct {
	name, variable string // of the variable that names its checkout
	file           string // which the checkout must have
	command        func(checkout, dir, out string) *exec.Cmd
}

// looseReader are figures that follow times.
var looseReader = regexp.MustCompile(`qps|latency|throughput|duration|server_metrics|_ms$|_time|seconds|per_gpu|samples`)

var harnessReaders = []harnessReader{
	{"InferenceX", "INFERENCEX", "utils/agentic/aggregation/process_agentic_result.py", func(checkout, dir, out string) *exec.Cmd {
		cmd := exec.Command("python3", "-B", "-m", "utils.agentic.aggregation.process_agentic_result")
		cmd.Dir = checkout
		cmd.Env = append(os.Environ(), "RESULT_DIR="+filepath.Dir(dir), "AGENTIC_OUTPUT_DIR="+filepath.Dir(out), "RESULT_FILENAME="+strings.TrimSuffix(filepath.Base(out), ".json"),
			"MODEL=m", "SERVED_MODEL_NAME=m", "MODEL_PREFIX=m", "FRAMEWORK=vllm", "RUNNER_TYPE=cpu", "PRECISION=none", "KV_OFFLOADING=none", "TP=1", "CONC=1")
		return cmd
	}},
	{"Hyperloom", "HYPERLOOM", "src/hyperloom/inference_optimizer/assets/agentx/map_aiperf.py", func(checkout, dir, out string) *exec.Cmd {
		return exec.Command("python3", "-B", filepath.Join(checkout, "src/hyperloom/inference_optimizer/assets/agentx/map_aiperf.py"), filepath.Join(dir, aggregateFile), out)
	}},
}

// compare runs the reader on the files of both, and compares what it makes of them.
func (h *harnessReader) compare(t *testing.T, theirs, ours *harnessRun, equal bool) {
	checkout := os.Getenv(h.variable)
	if checkout == "" {
		t.Skipf("%s names no checkout of %s", h.variable, h.name)
	}
	require.FileExists(t, filepath.Join(checkout, h.file))
	var made [2]node
	for k, r := range []*harnessRun{theirs, ours} {
		dir := filepath.Join(t.TempDir(), "aiperf_artifacts")
		require.NoError(t, os.CopyFS(dir, os.DirFS(r.dir)))
		out := filepath.Join(t.TempDir(), "result.json")
		printed, err := h.command(checkout, dir, out).CombinedOutput()
		require.NoError(t, err, "%s", printed)
		text, err := os.ReadFile(out)
		require.NoError(t, err, "%s", printed)
		made[k] = readNode(t, text)
	}
	d := differing{found: map[string]string{}, rounded: true, loose: func(path string) bool { return !equal || looseReader.MatchString(path) }}
	d.compare("", &made[0], &made[1])
	tell(t, h.name, d.found)
}
