package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/aiperf"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// distance says how far two runs of a pair are apart: requests that one of them has alone, and instants that differ.
type distance struct {
	alone    []string
	instants []string
	bodies   []string // that differ, of requests that both have: there must be none
	pairs    int      // requests that both have
	planned  int      // of these, those whose instants are compared
	leftOut  int      // requests of trees after a double jump
	edge     int      // requests that one has alone because its last ones were later, or earlier, than the end of the sending
	farthest time.Duration
	allowed  time.Duration
}

func (d *distance) size() int { return len(d.alone) + len(d.instants) }

func (d *distance) String() string {
	return fmt.Sprintf("distance %d: %d requests of one alone, %d of %d instants more than %v apart (farthest %v); %d pairs, %d bodies differ, %d left out, %d at the edge",
		d.size(), len(d.alone), len(d.instants), d.planned, d.allowed.Round(time.Millisecond), d.farthest.Round(time.Millisecond), d.pairs, len(d.bodies), d.leftOut, d.edge)
}

// tell reports the bodies that differ, and with same all other differences.
func (d *distance) tell(t *testing.T, same bool) {
	assert.Empty(t, d.bodies[:min(len(d.bodies), 3)], "%d of %d bodies", len(d.bodies), d.pairs)
	assert.Greater(t, d.pairs, 8, "too few to say anything")
	if same {
		assert.Empty(t, d.alone)
		assert.Empty(t, d.instants)
	}
	for _, text := range slices.Concat(d.alone, d.instants) {
		t.Log(text)
	}
}

// latenessBeyond is added to what the requests of the harness itself were late by.
const latenessBeyond = 50 * time.Millisecond

// edgeOfSending is how long before the end of the sending a request of one run may have no equal in another.
const edgeOfSending = 500 * time.Millisecond

// distanceOf compares the requests of two runs, the first of which is one of the harness. What a tree sends after a double jump of one
// of them is left out.
func distanceOf(theirs, other *harnessRun, p *harnessPair) (d distance) {
	left := doubleJumps(theirs, other)
	edge := p.duration() - edgeOfSending
	alone := func(which string, q *playedRequest) {
		if q.key.phase == "profiling" && q.at > edge {
			d.edge++
		} else {
			d.alone = append(d.alone, which+" alone: "+q.String())
		}
	}
	for _, r := range theirs.requests {
		d.allowed = max(d.allowed, r.late+latenessBeyond)
	}
	of := other.index()
	for k := range theirs.requests {
		x := &theirs.requests[k]
		y := of[x.key]
		delete(of, x.key)
		switch {
		case left.has(x) || y != nil && left.has(y):
			d.leftOut++
		case y == nil:
			alone("first", x)
		default:
			d.add(x, y, theirs, other, p.primers)
		}
	}
	for _, y := range of {
		if left.has(y) {
			d.leftOut++
		} else {
			alone("second", y)
		}
	}
	for _, pair := range [][2]*harnessRun{{theirs, other}, {other, theirs}} {
		rest := slices.Clone(pair[1].others)
		for _, body := range pair[0].others {
			if k := slices.Index(rest, body); k >= 0 {
				rest = slices.Delete(rest, k, k+1)
			} else {
				d.alone = append(d.alone, fmt.Sprintf("one alone, without a row: %.200s", body))
			}
		}
	}
	slices.Sort(d.alone)
	return d
}

func (q *playedRequest) String() string {
	return fmt.Sprintf("%s at %.3f s", q.key, q.at.Seconds())
}

// add compares a request of both. Its instant is that from the start of the phase, or from the end of a request of its tree, whichever
// agrees best: an answer that comes later delays all that follow it, and is told once.
func (d *distance) add(x, y *playedRequest, theirs, other *harnessRun, primers bool) {
	d.pairs++
	if !bytes.Equal(x.sent.body, y.sent.body) {
		d.bodies = append(d.bodies, x.key.String()+": "+difference(string(x.sent.body), string(y.sent.body)))
	}
	if x.key.phase == "warmup" && !primers {
		return // the pressure stage sends at the pace of answers
	}
	d.planned++
	apart := (x.at - y.at).Abs()
	of := theirs.index()
	for k := range other.requests {
		before := &other.requests[k]
		if b := of[before.key]; b != nil && before.key.phase == y.key.phase && before.end <= y.at && (before.tree == y.tree || y.key.turn == 0) {
			apart = min(apart, ((x.at - b.end) - (y.at - before.end)).Abs())
		}
	}
	d.farthest = max(d.farthest, apart)
	if apart > d.allowed {
		d.instants = append(d.instants, fmt.Sprintf("%s and %.3f s", x, y.at.Seconds()))
	}
}

// traceOf returns the trace of a session.
func traceOf(session string) string {
	trace, _, _ := strings.Cut(session, "::")
	return trace
}

// leftTrees says from when on the requests of a trace are not compared.
type leftTrees map[string]time.Duration

func (l leftTrees) has(q *playedRequest) bool {
	from, ok := l[traceOf(q.key.session)]
	return ok && q.key.phase == "profiling" && q.at >= from
}

// Turns of one tree that one run sends within jumpWithin, and the other jumpApart from each other, are a double jump.
const (
	jumpWithin = 20 * time.Millisecond
	jumpApart  = time.Second
)

// doubleJumps finds idle intervals in which one of two runs, a harness, advanced a second timer before the turn that the first had
// released was on the wire.
func doubleJumps(a, b *harnessRun) leftTrees {
	left := leftTrees{}
	for _, pair := range [][2]*harnessRun{{a, b}, {b, a}} {
		of := pair[1].index()
		list := pair[0].requests
		for k := range list {
			for j := k + 1; j < len(list); j++ {
				x, y := &list[k], &list[j]
				if x.key.phase != "profiling" || y.key.phase != "profiling" || x.key.session == y.key.session || y.at-x.at > jumpWithin {
					continue
				}
				ox, oy := of[x.key], of[y.key]
				if ox == nil || oy == nil || (oy.at-ox.at).Abs() < jumpApart {
					continue
				}
				for _, q := range []*playedRequest{x, y} {
					from, ok := left[traceOf(q.key.session)]
					if !ok || x.at < from {
						left[traceOf(q.key.session)] = x.at
					}
				}
			}
		}
	}
	return left
}

// toldAtMost bounds what is said of one file.
const toldAtMost = 20

// tell reports differences, in order. All of them stand below HARNESS_KEEP.
func tell(t *testing.T, what string, found map[string]string) {
	list := []string{}
	for _, text := range found {
		list = append(list, text)
	}
	slices.Sort(list)
	if dir := os.Getenv("HARNESS_KEEP"); dir != "" {
		dir = filepath.Join(dir, t.Name())
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, what+".differences"), []byte(strings.Join(list, "\n")), 0o600))
	}
	if len(list) > 0 {
		t.Errorf("%s: %d differences:\n\t%s", what, len(list), strings.Join(list[:min(len(list), toldAtMost)], "\n\t"))
	}
}

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

// node is a JSON value that knows the order of its members and how its numbers are written.
type node struct {
	kind    string // object, list, text, whole, float, bool, null
	text    string
	keys    []string
	members []node // of keys, or of the list
}

// readNode reads a JSON value.
func readNode(t *testing.T, text []byte) node {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	n, err := nextNode(d)
	require.NoError(t, err)
	return n
}

func nextNode(d *json.Decoder) (n node, err error) {
	token, err := d.Token()
	if err != nil {
		return n, err
	}
	switch v := token.(type) {
	case json.Delim:
		n.kind = "list"
		if v == '{' {
			n.kind = "object"
		}
		for d.More() && err == nil {
			if v == '{' {
				var key json.Token
				if key, err = d.Token(); err != nil {
					break
				}
				n.keys = append(n.keys, key.(string))
			}
			var below node
			below, err = nextNode(d)
			n.members = append(n.members, below)
		}
		if err == nil {
			_, err = d.Token()
		}
	case string:
		n.kind, n.text = "text", v
	case json.Number:
		n.kind, n.text = "whole", v.String()
		if strings.ContainsAny(n.text, ".eE") {
			n.kind = "float"
		}
	case bool:
		n.kind, n.text = "bool", fmt.Sprint(v)
	default:
		n.kind = "null"
	}
	return n, err
}

// each calls visit with every value and its path.
func (n *node) each(path string, visit func(path string, n *node)) {
	visit(path, n)
	for k := range n.members {
		below := fmt.Sprintf("%s[%d]", path, k)
		if n.kind == "object" {
			below = path + "." + n.keys[k]
		}
		n.members[k].each(below, visit)
	}
}

// at returns a member; a node without a kind where there is none.
func (n *node) at(path ...string) *node {
	for _, key := range path {
		k := slices.Index(n.keys, key)
		if k < 0 {
			return &node{}
		}
		n = &n.members[k]
	}
	return n
}

// differing collects how two JSON values differ, each way once with an example.
type differing struct {
	loose    func(path string) bool                    // its value may be another
	absent   func(path string) bool                    // one of the two may have it alone
	scatters func(path string, keys []string) []string // of the keys of an object of the harness, those whose places are no same in two runs
	found    map[string]string

	rounded bool // a whole number may stand for one with a fraction
	strict  bool // lists are as long as each other, and their members are compared, although their values are loose
}

// examplesOfOne is how many differences of one member are told: rows have many.
const examplesOfOne = 3

func (d *differing) add(path, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	kind, _, _ := strings.Cut(what, ":")
	general := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]") + " " + kind
	for k := range examplesOfOne {
		key := fmt.Sprint(general, k)
		if d.found[key] == "" {
			d.found[key] = path + ": " + what
		}
		if d.found[key] == path+": "+what {
			return
		}
	}
}

// compare compares names, their order, kinds, and the values that must be equal.
func (d *differing) compare(path string, theirs, ours *node) {
	numbers := map[string]bool{"whole": true, "float": true}
	if theirs.kind != ours.kind && !(d.rounded && numbers[theirs.kind] && numbers[ours.kind]) {
		d.add(path, "kind: %s %.60s and %s %.60s", theirs.kind, theirs.text, ours.kind, ours.text)
		return
	}
	switch theirs.kind {
	case "object":
		var common [2][]string
		for _, key := range theirs.keys {
			if !slices.Contains(ours.keys, key) {
				if d.absent == nil || !d.absent(path+"."+key) {
					d.add(path+"."+key, "the harness has it alone")
				}
				continue
			}
			common[0] = append(common[0], key)
			d.compare(path+"."+key, theirs.at(key), ours.at(key))
		}
		for _, key := range ours.keys {
			switch {
			case slices.Contains(theirs.keys, key):
				common[1] = append(common[1], key)
			case d.absent == nil || !d.absent(path+"."+key):
				d.add(path+"."+key, "agentx has it alone")
			}
		}
		if d.scatters != nil {
			scattered := d.scatters(path, theirs.keys)
			for k := range common {
				common[k] = slices.DeleteFunc(common[k], func(key string) bool { return slices.Contains(scattered, key) })
			}
		}
		if k := samePrefix(common[0], common[1]); k < len(common[0]) {
			d.add(path, "order: the harness has %s where agentx has %s", common[0][k], common[1][k])
		}
	case "list":
		if d.loose(path) && !d.strict {
			break
		}
		if len(theirs.members) != len(ours.members) {
			d.add(path, "length: %d and %d", len(theirs.members), len(ours.members))
		}
		for k := range min(len(theirs.members), len(ours.members)) {
			d.compare(fmt.Sprintf("%s[%d]", path, k), &theirs.members[k], &ours.members[k])
		}
	default:
		if theirs.text != ours.text && !d.loose(path) && !sameNumber(theirs, ours) {
			d.add(path, "value: %.200q and %.200q", theirs.text, ours.text)
		}
	}
}

// sameNumber reports whether two numbers are the same but for the last bits of a sum.
func sameNumber(a, b *node) bool {
	var x, y float64
	return a.kind == "float" && json.Unmarshal([]byte(a.text), &x) == nil && json.Unmarshal([]byte(b.text), &y) == nil && math.Abs(x-y) <= 1e-9*math.Abs(x)
}

// phaseRange is when a phase of the harness was played.
type phaseRange struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// phaseRanges returns the phases of a run of the harness from its server metrics. They have its warmup until after its last scrape, so
// the length of that is the one that its rate of requests was divided by.
func (r *harnessRun) phaseRanges(t *testing.T, warmup report.Table) map[string]phaseRange {
	var file struct {
		Summary struct {
			Phases map[string]phaseRange `json:"phase_time_ranges"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.text(t, serverFile)), &file))
	phases := file.Summary.Phases
	if count, rate := warmup.Find("request_count"), warmup.Find("request_throughput"); count != nil && rate != nil {
		n, _ := count.Find("avg")
		perSecond, _ := rate.Find("avg")
		p := phases[measure.WarmupPhase]
		p.End = p.Start + int64(math.Round(n.Float64()/perSecond.Float64()*1e9))
		phases[measure.WarmupPhase] = p
	}
	return phases
}

// recount makes records of agentx from the rows of the harness and computes results from them.
func recount(t *testing.T, r *harnessRun, phases map[string]phaseRange, rounded bool) *aiperf.Aggregate {
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range r.requests {
		row := recountedRow{row: &r.requests[k].row, origin: phases[r.requests[k].key.phase].Start, rounded: rounded}
		record := row.record()
		require.NoError(t, w.Write(&record))
	}
	require.NoError(t, w.Close())
	profiling := phases[measure.ProfilingPhase]
	length := float64(profiling.End-profiling.Start) / 1e9
	info := measure.RunInfo{Run: measure.Run{Version: "1", Model: "m", Preset: preset.AgentX, Start: time.Unix(0, profiling.Start).UTC(), URLs: []string{"http://127.0.0.1:1"}},
		Facts: &measure.Facts{PhaseDuration: length, Deadline: length}}
	for _, name := range []string{measure.WarmupPhase, measure.ProfilingPhase} {
		p := phases[name]
		info.Phases = append(info.Phases, measure.PhaseSpan{Name: name, Start: time.Unix(0, p.Start).UTC(), Duration: float64(p.End-p.Start) / 1e9})
	}
	written, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), written, 0o600))
	run, err := report.Open(dir)
	require.NoError(t, err)
	_, err = aiperf.Write(t.Context(), run, aiperf.Options{})
	require.NoError(t, err)
	written, err = os.ReadFile(filepath.Join(dir, aggregateFile))
	require.NoError(t, err)
	results, err := aiperf.ReadAggregate(written)
	require.NoError(t, err)
	return results
}

// recountedRow is a row of the harness on its way to a record. Its instants are on two clocks: requests begin and end by the wall clock,
// and spans are of another. The harness makes curves of the wall clock, which its floating-point numbers have in steps of 256 ns, and the
// statistics of requests of the other.
type recountedRow struct {
	row     *aiperf.Row
	origin  int64 // of the phase
	rounded bool  // by the wall clock, in such steps
	value   map[string]float64
}

// at returns an instant as a record has it: some spans after the start of the request, in ms.
func (r *recountedRow) at(spans ...string) float64 {
	ns := r.row.Metadata.RequestStart - r.origin
	for _, tag := range spans {
		ns += int64(math.Round(r.value[tag] * 1e6))
	}
	return r.wall(ns + r.origin)
}

// wall returns an instant as a record has it.
func (r *recountedRow) wall(ns int64) float64 {
	if r.rounded {
		ns = int64(float64(ns))
	}
	return float64(ns-r.origin) / 1e9
}

// tokens returns a count, nil if the row does not have it.
func (r *recountedRow) tokens(tag string) measure.Count {
	v, ok := r.value[tag]
	if !ok {
		return 0
	}
	return measure.Tokens(int64(v))
}

func (r *recountedRow) record() measure.Record {
	m := &r.row.Metadata
	r.value = map[string]float64{}
	var gaps []report.Number
	for _, x := range r.row.Metrics {
		if x.List != nil {
			gaps = x.List
		} else {
			r.value[x.Tag] = x.Value.Float64()
		}
	}
	issued := r.wall(m.CreditIssued)
	o := measure.Record{Phase: m.Phase, Credit: int(m.SessionNum), Trace: m.SourceTrace, Session: m.Conversation, Turn: m.Turn, Depth: m.Depth, SourceKind: m.SourceKind,
		RequestID: m.RequestID, CorrelationID: m.CorrelationID, RootID: m.RootID, ParentID: m.ParentID, Bucket: measure.Profiling,
		Numbers: measure.Numbers{Due: measure.At(issued), Admitted: measure.At(issued), Sent: measure.At(r.at()), End: measure.At(r.wall(m.RequestEnd)), Status: 200}}
	if m.Phase == measure.WarmupPhase {
		o.Bucket = measure.WarmupBucket
	}
	if r.row.Error != nil {
		o.End = measure.At(max(o.End.Seconds(), o.Sent.Seconds()))
		o.Error = &measure.Error{Category: wire.HTTPStatus, Code: r.row.Error.Code, Message: r.row.Error.Message}
		return o
	}
	o.FirstToken, o.LastToken, o.FirstOutput = measure.At(r.at("time_to_first_token")), measure.At(r.at("request_latency")), measure.At(r.at("time_to_first_output_token"))
	if _, ok := r.value["time_to_second_token"]; ok {
		o.SecondToken = measure.At(r.at("time_to_first_token", "time_to_second_token"))
	}
	if !r.rounded {
		o.End = measure.At(r.at("time_to_first_token", "full_decode_duration"))
	}
	o.LastToken = measure.At(min(o.LastToken.Seconds(), o.End.Seconds()))
	r.count(&o)
	r.connect(&o)
	at := r.value["time_to_first_token"]
	o.Contents.Add(spanOf(at), -1)
	for _, gap := range gaps {
		at += gap.Float64()
		o.Contents.Add(spanOf(at), -1)
	}
	o.Chunks = o.Contents.Len()
	return o
}

func spanOf(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }

// count fills in tokens and bytes.
func (r *recountedRow) count(o *measure.Record) {
	o.PromptTokens, o.CachedTokens = r.tokens("usage_prompt_tokens"), r.tokens("usage_prompt_cache_read_tokens")
	o.OutputTokens, o.TotalTokens = r.tokens("usage_completion_tokens"), r.tokens("usage_total_tokens")
	o.BytesSent, o.BytesReceived = int64(math.Round(r.value["http_req_data_sent"]*1024)), int64(math.Round(r.value["http_req_data_received"]*1024))
	o.BodySent, o.BodyReceived, o.BodyReads = o.BytesSent, o.BytesReceived, int(r.value["http_req_chunks_received"])
	o.Reused = r.value["http_req_connection_reused"] == 1
	if off, ok := r.value["osl_mismatch_diff_pct"]; ok && o.OutputTokens != 0 {
		o.MaxTokens = int64(math.Round(float64(o.OutputTokens.N()) / (1 + off/100)))
	}
}

// connect fills in the steps of the connection.
func (r *recountedRow) connect(o *measure.Record) {
	o.WaitEnd = measure.At(r.at("http_req_blocked"))
	o.SendStart = measure.At(r.at("http_req_blocked", "http_req_connecting"))
	if r.value["http_req_connecting"] > 0 {
		o.ConnectStart, o.ConnectEnd = o.WaitEnd, o.SendStart
	}
	o.SendEnd = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending"))
	o.FirstByte = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending", "http_req_waiting"))
	o.LastByte = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending", "http_req_waiting", "http_req_receiving"))
}

// notRecounted are blocks that rows do not tell enough of: the recording decides the hits, overflows have no rows, and failed requests no
// tokens.
var notRecounted = []string{"theoretical_prefix_cache_hit", "context_overflow_count", "skipped_context_overflow_count", "error_isl", "total_error_isl"}

var (
	// byWallClock are curves, and spans from the credit on.
	byWallClock = regexp.MustCompile(`^(effective|active)_|^tokens_in_flight$|^credit_to_start_latency$`)
	// overChunks are curves over the gaps between content messages, which may be shorter than a step of the harness's clock: 256 ns.
	overChunks = regexp.MustCompile(`^(effective|active)_decode_throughput|^tokens_in_flight$`)
)

// How far a number of the harness and of agentx may be apart, as a share of it: of curves over chunks more, and their maximum is that of
// what overlaps for a step of the clock. Spans have the nanosecond of records besides, which is a spanStep of their ms.
const (
	recountedWithin = 1e-6
	chunksWithin    = 5e-3
	spanStep        = 1e-6
)

// compareRecount compares the blocks of the harness's aggregate with those that agentx computes from its rows.
func compareRecount(t *testing.T, r *harnessRun) (found map[string]string, compared int) {
	theirs, err := aiperf.ReadAggregate([]byte(r.text(t, aggregateFile)))
	require.NoError(t, err)
	phases := r.phaseRanges(t, theirs.Warmup)
	spans, curves := recount(t, r, phases, false), recount(t, r, phases, true)
	found = map[string]string{}
	for _, c := range []struct {
		phase                 string
		theirs, spans, curves report.Table
	}{{"profiling", theirs.Headline, spans.Headline, curves.Headline}, {"warmup", theirs.Warmup, spans.Warmup, curves.Warmup}} {
		for k := range c.theirs {
			b := &c.theirs[k]
			ours := c.spans.Find(b.Tag)
			if byWallClock.MatchString(b.Tag) {
				ours = c.curves.Find(b.Tag)
			}
			if slices.Contains(notRecounted, b.Tag) {
				continue
			}
			n, text := compareBlock(b, ours)
			compared += n
			if text != "" {
				found[c.phase+b.Tag] = c.phase + " " + b.Tag + ":" + text
			}
		}
	}
	return found, compared
}

// compareBlock compares the statistics of a block with those of agentx.
func compareBlock(b, ours *report.Block) (compared int, text string) {
	if ours == nil {
		return 0, " agentx does not compute it"
	}
	chunks, within := overChunks.MatchString(b.Tag), recountedWithin
	if chunks {
		within = chunksWithin
	}
	for _, s := range b.Stats {
		want := s.Value.Float64()
		got, ok := ours.Find(s.Name)
		compared++
		if !ok || math.Abs(got.Float64()-want) > within*math.Abs(want)+spanStep && !(chunks && s.Name == "max") {
			text += fmt.Sprintf(" %s %v and %v", s.Name, want, got.Float64())
		}
	}
	return compared, text
}

// oneRequest is a request of a made-up run: of a turn, at a time in ms, that took 10.
func oneRequest(session string, number, at int) playedRequest {
	start := time.Duration(at) * time.Millisecond
	return playedRequest{key: requestKey{phase: "profiling", session: session, turn: number}, tree: traceOf(session), at: start, end: start + 10*time.Millisecond,
		sent: sentRequest{body: []byte(session)}}
}

// Requests that one run has alone, and instants that differ from the start of the phase and from the request before, make two runs
// differ; so do bodies. A tree is left out from a double jump on.
func TestHarnessDistance(t *testing.T) {
	p := &harnessPair{flags: "--benchmark-duration 20"}
	of := func(list ...playedRequest) *harnessRun { return &harnessRun{requests: list} }
	a := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("b", 0, 5000))
	for _, c := range []struct {
		name string
		b    *harnessRun
		want [4]int // alone, instants, bodies, left out
	}{
		{"the same", of(oneRequest("a", 0, 10), oneRequest("a", 1, 1030), oneRequest("b", 0, 4990)), [4]int{}},
		{"a late tree is late by what it began with", of(oneRequest("a", 0, 49), oneRequest("a", 1, 1090), oneRequest("b", 0, 5000)), [4]int{}},
		{"one is missing, another is there", of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("c", 0, 5000)), [4]int{2, 0, 0, 0}},
		{"another turn", of(oneRequest("a", 0, 0), oneRequest("a", 2, 1000), oneRequest("b", 0, 5000)), [4]int{2, 0, 0, 0}},
		{"another instant", of(oneRequest("a", 0, 0), oneRequest("a", 1, 1100), oneRequest("b", 0, 5000)), [4]int{0, 1, 0, 0}},
	} {
		d := distanceOf(a, c.b, p)
		assert.Equal(t, c.want, [4]int{len(d.alone), len(d.instants), len(d.bodies), d.leftOut}, c.name)
		assert.Equal(t, c.want[0]+c.want[1], d.size(), c.name)
	}
	other := oneRequest("b", 0, 5000)
	other.sent.body = []byte("B")
	d := distanceOf(a, of(a.requests[0], a.requests[1], other), p)
	assert.Len(t, d.bodies, 1)

	d = distanceOf(a, of(a.requests[0], a.requests[1], a.requests[2], oneRequest("c", 0, 19600)), p)
	assert.Equal(t, [2]int{0, 1}, [2]int{d.size(), d.edge})
	d = distanceOf(a, of(a.requests[0], a.requests[1], a.requests[2], oneRequest("c", 0, 19400)), p)
	assert.Equal(t, [2]int{1, 0}, [2]int{d.size(), d.edge})

	cancelled := of(a.requests...)
	cancelled.others = []string{"x"}
	d = distanceOf(a, cancelled, p)
	assert.Equal(t, 1, d.size())

	jumped := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("a::sa:x", 0, 1004), oneRequest("a", 2, 1500), oneRequest("b", 0, 3000))
	once := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("a::sa:x", 0, 5840), oneRequest("a", 3, 9000), oneRequest("b", 0, 3000))
	d = distanceOf(jumped, once, p)
	assert.Equal(t, [3]int{0, 4, 2}, [3]int{d.size(), d.leftOut, d.pairs})
}

// Names, their order, kinds and values make two JSON values differ.
func TestHarnessJSON(t *testing.T) {
	theirs := readNode(t, []byte(`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":5}`))
	for text, want := range map[string]int{
		`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:             0,
		`{"a":1.0000000000001,"b":{"c":[1,2],"d":"x"},"t_ns":7}`: 0,
		`{"a":1.001,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:           1,
		`{"a":1,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:               1,
		`{"b":{"c":[1,2],"d":"x"},"a":1.0,"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1,2],"d":"y"},"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1],"d":"x"},"t_ns":7}`:               1,
		`{"a":1.0,"b":{"c":[1,3],"d":"x"},"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1,2]},"t_ns":7}`:                     1,
		`{"a":1.0,"b":{"c":[1,2],"d":"x","e":0},"t_ns":7}`:       1,
		`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":null}`:          1,
	} {
		d := differing{loose: func(path string) bool { return path == ".t_ns" }, found: map[string]string{}}
		ours := readNode(t, []byte(text))
		d.compare("", &theirs, &ours)
		assert.Len(t, d.found, want, text)
	}
}

// A figure that is off by more than the clock is told, as is one that is missing.
func TestHarnessBlocks(t *testing.T) {
	block := func(kind report.Kind, tag string, avg float64) *report.Block {
		return &report.Block{Tag: tag, Kind: kind, Stats: []report.Stat{{Name: "avg", Value: report.Float(avg)}}}
	}
	for _, c := range []struct {
		theirs, ours *report.Block
		told         bool
	}{
		{block(report.Curve, "effective_concurrency", 1), block(report.Curve, "effective_concurrency", 1.0000009), false},
		{block(report.Curve, "effective_concurrency", 1), block(report.Curve, "effective_concurrency", 1.000002), true},
		{block(report.Curve, "active_decode_throughput", 1000), block(report.Curve, "active_decode_throughput", 1000.5), false},
		{block(report.Curve, "active_decode_throughput", 1000), block(report.Curve, "active_decode_throughput", 1010), true},
		{block(report.Scalar, "request_count", 10), block(report.Scalar, "request_count", 11), true},
		{block(report.Scalar, "request_count", 10), nil, true},
		{block(report.Scalar, "request_count", 10), &report.Block{}, true},
	} {
		_, text := compareBlock(c.theirs, c.ours)
		assert.Equal(t, c.told, text != "", "%s %s", c.theirs.Tag, text)
	}
}

// Lines that one file has alone are told, or else where two files are in another order.
func TestHarnessTexts(t *testing.T) {
	assert.Empty(t, compareTexts([]string{"a", "b"}, []string{"a", "b"}))
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"a", "c"}), 2)
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"b", "a"}), 1)
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"a", "b", "a"}), 1)
}
