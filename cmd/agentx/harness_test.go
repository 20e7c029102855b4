package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/aiperf"
)

// The exit statuses are those of the harness: an interrupted run with results is done, a run that is not valid by an override too, and
// everything else that is wrong has failed.
//
//
func TestStatusOfTheHarness(t *testing.T) {
	verdict := func(reasons ...string) error { return verdictError{invalidRun{"agentx", reasons}} }
	for want, errs := range map[int][]error{
		0: {nil, verdict("unsafe_override"), verdict("unsafe_override", "context_overflow_rate_exceeded"), cancelledRun{context.Canceled, true}},
		1: {
			usageError{fmt.Errorf("x")}, errorList{hintError{usageError{fmt.Errorf("x")}, "y"}, verdict("z")}, fmt.Errorf("the warmup failed"),
			hintError{verdict("insufficient_profile_metric_coverage"), "logs"}, verdictError{fmt.Errorf("2 trees")},
		},
	} {
		for _, err := range errs {
			var problems strings.Builder
			cmd := newProfile()
			cmd.SetErr(&problems)
			cmd.SetContext(t.Context())
			assert.Equal(t, want, reportError(t.Context(), &problems, harnessStatus(cmd, aiperfStatus(cmd, err))), "%v", err)
		}
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	cmd := newProfile()
	cmd.SetErr(new(strings.Builder))
	cmd.SetContext(interrupted)
	assert.Equal(t, 1, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, context.Canceled)), "no results")
	assert.Equal(t, 1, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, cancelledRun{context.Canceled, false})), "a warmup alone")
	assert.Equal(t, 0, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, cancelledRun{context.Canceled, true})))
}

// harnessPair is one command line, which both tools run against servers that answer alike.
type harnessPair struct {
	name    string
	traces  func(t *testing.T) string // a directory
	flags   string
	answers answers
	primers bool // the warmup has nothing but primers: it has planned instants too
	same    bool // the harness equals itself, so agentx must equal it
}

// harnessPairs take half a minute each, and as long again for every further run of the harness. Their durations end where nothing is due.
var harnessPairs = []harnessPair{
	{name: "lanes4", traces: publicTraces, flags: "--concurrency 4 --benchmark-duration 25 --warmup-requests-per-lane 2"},
	{name: "lanes8", traces: publicTraces, flags: "--concurrency 8 --benchmark-duration 19 --warmup-requests-per-lane 3 --trace-idle-gap-cap-seconds 2"},
	{name: "burst", traces: publicTraces, flags: "--concurrency 6 --benchmark-duration 20 --warmup-requests-per-lane 1 --burst-phase-starts"},
	{name: "wrap", traces: publicTraces, flags: "--concurrency 20 --benchmark-duration 20 --scenario inferencex-agentx-mvp --streaming --no-gpu-telemetry --random-seed 42", primers: true, same: true},
	{name: "recycle", traces: recycledTraces, flags: "--concurrency 3 --benchmark-duration 20 --warmup-requests-per-lane 1"},
	{name: "subagents", traces: subagentTraces, same: true,
		flags: "--concurrency 1 --benchmark-duration 25 --warmup-requests-per-lane 1 --trajectory-start-min-ratio 0 --trajectory-start-max-ratio 0.2"},
	{name: "errors", traces: recycledTraces, flags: "--concurrency 6 --benchmark-duration 19 --warmup-requests-per-lane 1 --failed-request-threshold 1",
		answers: answers{every: 3, faults: []string{"status", "cut", "busy", "empty", "words", "overflow", "cut"}}},
	{name: "grace", traces: recycledTraces, flags: "--concurrency 4 --benchmark-duration 16 --warmup-requests-per-lane 1 --benchmark-grace-period 4",
		answers: answers{stall: 5, stalled: time.Minute}},
}

// duration returns how long the phase of a pair sends.
func (p *harnessPair) duration() time.Duration {
	words := strings.Fields(p.flags)
	seconds, _ := strconv.Atoi(words[slices.Index(words, "--benchmark-duration")+1])
	return time.Duration(seconds) * time.Second
}

// publicTraces copies the traces of ../shared.
func publicTraces(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(sharedCorpus+"traces")))
	return dir
}

// recycledTraces are shorter than a run.
func recycledTraces(t *testing.T) string {
	dir := t.TempDir()
	for k := range 9 {
		writeTrace(t, dir, k+1, []turn{{0, 0.2, 10}, {1 + 0.37*float64(k), 0.2, 14}, {3 + 0.53*float64(k), 0.2, 18}, {4.5 + 0.61*float64(k), 0.2, 21}})
	}
	return dir
}

// subagentTraces have turns with children that run while their parent does, and one that it waits for.
func subagentTraces(t *testing.T) string {
	dir := t.TempDir()
	for k := range 3 {
		by := 0.41 * float64(k)
		writeTrace(t, dir, k+1, []turn{{0, 0.5, 10}, {3 + by, 0.5, 12}, {6, 0.5, 14}, {16 + by, 0.5, 16}, {19, 0.5, 18}},
			agent{6.6, []turn{{0, 0.5, 6}, {2.5 + by, 0.5, 8}, {5.1, 0.5, 10}}}, agent{6.7, []turn{{0, 0.5, 5}, {4.2 + by, 0.5, 7}}}, agent{20, []turn{{0, 0.5, 6}, {2, 0.5, 9}}})
	}
	return dir
}

// agentx-harness 1.0.12 and agentx run the same command lines. Both send the same requests at the same planned instants, as far as the
// harness does twice, with the same bodies to the last byte but for the digits of markers; what both write is equal in every member that
// is no time; and what agentx computes from the rows of the harness is what the harness wrote.
func TestHarness(t *testing.T) {
	harness := os.Getenv("HARNESS")
	if harness == "" {
		t.Skip("needs an installed harness: make test-harness")
	}
	if _, err := os.Stat(sharedCorpus); err != nil {
		t.Skip("needs the traces of ../shared")
	}
	t.Setenv("TZ", "UTC") // the harness writes local times
	t.Setenv("AGENTX_CORPUS", sharedCorpus+"aiperf-coding-42-o200k_base.u32le")
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	t.Setenv("AGENTX_CACHE", t.TempDir())
	for _, p := range harnessPairs {
		t.Run(p.name, func(t *testing.T) { p.compare(t, harness) })
	}
}

// compare plays a pair, the harness again where agentx differs from it, and compares what both wrote.
func (p *harnessPair) compare(t *testing.T, harness string) {
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
	defer stop()
	traces := p.traces(t)
	wait := p.startTheirs(ctx, t, harness, traces)
	ours := p.playOurs(t, traces)
	theirs := []*harnessRun{wait()}
	d := distanceOf(theirs[0], ours, p)
	t.Logf("harness %v, agentx %v: %v", theirs[0], ours, &d)
	nearest := 0
	if d.size() > 0 && !p.same {
		nearest, d = p.repeat(ctx, t, harness, traces, ours, &theirs)
	}
	d.tell(t, p.same)
	for k, r := range append(theirs, ours) {
		r.keep(t, fmt.Sprint(k))
	}
	equal := d.size()+d.leftOut+d.edge == 0
	compareFiles(t, theirs[nearest], ours, p, equal)
	found, n := compareRecount(t, theirs[nearest])
	t.Logf("%d numbers of the harness computed again from its rows", n)
	tell(t, "recount", found)
	for _, reader := range harnessReaders {
		t.Run(reader.name, func(t *testing.T) { reader.compare(t, theirs[nearest], ours, equal) })
	}
}

// repeat plays the harness again, twice at most, until agentx is no farther from one of its runs than two of them are from each other. It
// returns the run that is nearest to agentx.
func (p *harnessPair) repeat(ctx context.Context, t *testing.T, harness, traces string, ours *harnessRun, theirs *[]*harnessRun) (nearest int, near distance) {
	near = distanceOf((*theirs)[0], ours, p)
	most := 0
	for k := 1; k < 3 && near.size() > most; k++ {
		again := p.startTheirs(ctx, t, harness, traces)()
		for _, r := range *theirs {
			d := distanceOf(r, again, p)
			t.Logf("harness and harness: %v", &d)
			most = max(most, d.size())
		}
		*theirs = append(*theirs, again)
		if d := distanceOf(again, ours, p); d.size() < near.size() {
			nearest, near = k, d
		}
		t.Logf("harness %v, agentx, nearest: %v", again, &near)
	}
	assert.LessOrEqual(t, near.size(), most, "agentx differs from the harness more than it does from itself")
	return nearest, near
}

// harnessRun is what one tool did.
type harnessRun struct {
	dir      string // of its files
	server   *harnessServer
	log      string
	requests []playedRequest // that have rows, in the order in which they were issued
	others   []string        // bodies of requests without rows, such as those that the end of the grace cancelled, in order
}

// playedRequest is a request that has a row.
type playedRequest struct {
	key  requestKey
	tree string        // correlation id of the root
	at   time.Duration // since the start of the phase, or the first request of a warmup
	end  time.Duration
	late time.Duration // from the credit to the request
	sent sentRequest
	row  aiperf.Row
	line []byte
}

// requestKey names a request. Of the requests of one turn the first is 0, whichever pass it belongs to.
type requestKey struct {
	phase, session string
	turn, nth      int
}

func (k requestKey) String() string {
	return fmt.Sprintf("%s %s %d/%d", k.phase, k.session, k.turn, k.nth)
}

// command returns the command line of a pair.
func (p *harnessPair) command(url, traces, dir string) []string {
	return slices.Concat([]string{"profile", "--model", "m", "--url", url, "--input-file", traces, "--custom-dataset-type", "weka_trace", "--unsafe-override",
		"--tokenizer", "builtin", "--use-server-token-count"}, strings.Fields(p.flags), []string{"--output-artifact-dir", dir})
}

// startTheirs starts the harness. The function that it returns waits for its end.
func (p *harnessPair) startTheirs(ctx context.Context, t *testing.T, harness, traces string) func() *harnessRun {
	r := &harnessRun{dir: filepath.Join(t.TempDir(), "artifacts"), server: newHarnessServer(t, p.answers)}
	cmd := exec.CommandContext(ctx, harness, p.command(r.server.url, traces, r.dir)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AIPERF_") }),
		"TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir(), "HF_HUB_OFFLINE=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	return func() *harnessRun {
		err := cmd.Wait()
		r.log = out.String()
		require.NoError(t, err, "harness: %s", r.log)
		r.read(t)
		return r
	}
}

// playOurs runs agentx.
func (p *harnessPair) playOurs(t *testing.T, traces string) *harnessRun {
	r := &harnessRun{dir: filepath.Join(t.TempDir(), "artifacts"), server: newHarnessServer(t, p.answers)}
	var problems strings.Builder
	status := run(p.command(r.server.url, traces, r.dir), nil, io.Discard, &problems)
	r.log = problems.String()
	require.Zero(t, status, r.log)
	r.read(t)
	return r
}

// read reads the rows of a run and joins them with what the server saw.
func (r *harnessRun) read(t *testing.T) {
	first := map[string]int64{"profiling": r.start(t)}
	for line := range strings.Lines(r.text(t, rowsFile)) {
		row, err := aiperf.ParseRow([]byte(line))
		require.NoError(t, err)
		m := row.Metadata
		q := playedRequest{key: requestKey{phase: m.Phase, session: m.Conversation, turn: m.Turn}, tree: m.RootID, row: row, line: []byte(line)}
		if r.server != nil {
			q.sent = r.server.of(t, m.RequestID)
		}
		r.requests = append(r.requests, q)
	}
	require.NotEmpty(t, r.requests, r.log)
	if r.server != nil {
		r.others = r.server.without(r.requests)
	}
	slices.SortStableFunc(r.requests, func(a, b playedRequest) int {
		return cmp.Compare(a.row.Metadata.CreditIssued, b.row.Metadata.CreditIssued)
	})
	seen := map[requestKey]int{}
	for k := range r.requests {
		q := &r.requests[k]
		if first[q.key.phase] == 0 {
			first[q.key.phase] = q.row.Metadata.CreditIssued
		}
		m := &q.row.Metadata
		q.at, q.end = time.Duration(m.CreditIssued-first[q.key.phase]), time.Duration(m.RequestEnd-first[q.key.phase])
		q.late = time.Duration(m.RequestStart - m.CreditIssued)
		bare := q.key
		q.key.nth = seen[bare]
		seen[bare]++
	}
}

func (r *harnessRun) String() string {
	return fmt.Sprintf("%d rows, %d requests", len(r.requests), len(r.server.sent))
}

// index returns the requests by their keys.
func (r *harnessRun) index() map[requestKey]*playedRequest {
	of := map[requestKey]*playedRequest{}
	for k := range r.requests {
		of[r.requests[k].key] = &r.requests[k]
	}
	return of
}

// keep copies the files of a run below the directory that HARNESS_KEEP names.
func (r *harnessRun) keep(t *testing.T, name string) {
	if dir := os.Getenv("HARNESS_KEEP"); dir != "" {
		dir = filepath.Join(dir, t.Name(), name)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(r.dir)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte(r.log), 0o600))
	}
}

// start returns when the profiling phase began, in nanoseconds since 1970.
func (r *harnessRun) start(t *testing.T) int64 {
	aggregate := r.json(t, aggregateFile)
	at, err := time.Parse("2006-01-02T15:04:05.999999", strings.TrimSuffix(aggregate.at("start_time").text, "Z"))
	require.NoError(t, err)
	return at.UnixNano()
}

// Small traces that a test writes.

// turn is a request of a written trace.
type turn struct {
	at, took float64 // seconds
	blocks   int     // of 64 tokens
}

// agent is a subagent of one.
type agent struct {
	at    float64
	turns []turn
}

// writeTrace writes a trace with turns and subagents. No two traces share blocks but the first, which is that of all.
func writeTrace(t *testing.T, dir string, number int, turns []turn, agents ...agent) {
	next := 1000 * number
	request := func(o turn, from int, clock float64) map[string]any {
		ids := []int{}
		for k := range o.blocks {
			ids = append(ids, from+k)
		}
		return map[string]any{"t": clock, "type": "n", "model": "claude-opus-4-5-20251101", "in": 64 * o.blocks, "out": 10 + o.blocks, "hash_ids": ids,
			"input_types": []string{"text"}, "output_types": []string{"text"}, "stop": "tool_use", "api_time": o.took, "think_time": 0.0}
	}
	var entries []map[string]any
	for _, o := range turns {
		entries = append(entries, request(o, next, o.at))
	}
	for k, a := range agents {
		var below []map[string]any
		for _, o := range a.turns {
			below = append(below, request(o, next+100*(k+1), o.at))
		}
		last := a.turns[len(a.turns)-1]
		entries = append(entries, map[string]any{"t": a.at, "type": "subagent", "agent_id": fmt.Sprintf("agent_%03d", k+1), "subagent_type": "Explore",
			"duration_ms": int(1000 * (last.at + last.took)), "total_tokens": 100, "tool_use_count": 1, "status": "completed",
			"models": []string{"claude-opus-4-5-20251101"}, "tool_tokens": 64, "system_tokens": 64, "requests": below})
	}
	slices.SortStableFunc(entries, func(a, b map[string]any) int { return cmp.Compare(a["t"].(float64), b["t"].(float64)) })
	id := "trace_w" + strconv.Itoa(number)
	text, err := json.Marshal(map[string]any{"id": id, "models": []string{"claude-opus-4-5-20251101"}, "block_size": 64, "hash_id_scope": "local",
		"tool_tokens": 64, "system_tokens": 64, "requests": entries})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, id+".json"), text, 0o600))
}

// harnessServer answers as an engine of one model does and keeps every request. How it answers follows the content of the prompt
// without its marker, so that two clients get the same answers, in the same order where they are apart by a step.
type harnessServer struct {
	url  string
	plan answers

	mutex sync.Mutex
	sent  map[string]sentRequest // by X-Request-ID
	n     int
}

// answers say how a server answers.
type answers struct {
	faults  []string      // kinds that strike; warmups are spared
	every   uint64        // one content of so many has a fault
	stall   uint64        // one content of so many is answered after stalled
	stalled time.Duration // longer than the grace
}

// sentRequest is a request as it came.
type sentRequest struct {
	at          time.Time
	body        []byte // without the digits of its marker
	correlation string
	fault       string
	gone        bool // the client did not wait for the end of the answer
}

const (
	firstToken = 30 * time.Millisecond // at least
	firstStep  = 25 * time.Millisecond // more, as often as the content of the request says, so that the order of answers is the same
	firstSteps = 9
	tokenGap   = 2 * time.Millisecond
	mostTokens = 24 // that are streamed
)

func newHarnessServer(t *testing.T, plan answers) *harnessServer {
	s := &harnessServer{plan: plan, sent: map[string]sentRequest{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL
	return s
}

func (s *harnessServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"object":"list","data":[{"id":"m","object":"model"}]}`)
	case "/metrics":
		s.mutex.Lock()
		n := s.n
		s.mutex.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(w, "# HELP vllm:num_requests_running Requests that run.\n# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 1\n"+
			"# HELP vllm:request_success_total Requests.\n# TYPE vllm:request_success_total counter\nvllm:request_success_total{model_name=\"m\"} %d\n", n)
	case "/v1/chat/completions":
		s.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

// complete answers one request.
func (s *harnessServer) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var question struct {
		Messages json.RawMessage `json:"messages"`
		Most     int             `json:"max_completion_tokens"`
	}
	if err != nil || json.Unmarshal(body, &question) != nil {
		http.Error(w, "no body", http.StatusBadRequest)
		return
	}
	plain := markerDigits.ReplaceAll(body, []byte("[rid:]"))
	sum := sha256.Sum256(markerDigits.ReplaceAll(question.Messages, nil))
	draw := func(k int) uint64 { return uint64(binary.BigEndian.Uint32(sum[4*k:])) }
	one := sentRequest{at: time.Now(), body: plain, correlation: r.Header.Get("X-Correlation-ID")}
	if every := s.plan.every; every > 0 && draw(0)%every == 0 && question.Most > 1 {
		one.fault = s.plan.faults[draw(1)%uint64(len(s.plan.faults))]
	}
	s.mutex.Lock()
	s.n++
	s.mutex.Unlock()
	pause := firstToken + time.Duration(draw(2)%firstSteps)*firstStep
	if stall := s.plan.stall; stall > 0 && draw(3)%stall == 0 && question.Most > 1 {
		pause = s.plan.stalled
	}
	defer func() {
		one.gone = r.Context().Err() != nil
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.sent[r.Header.Get("X-Request-ID")] = one
	}()
	select {
	case <-time.After(pause):
		answer(w, one.fault, min(question.Most, mostTokens), len(body))
	case <-r.Context().Done():
	}
}

// The messages of faults that are statuses: an overflow by the words of the harness, one by words that only others count as one,
// and a plain failure.
var failures = map[string]struct {
	status int
	body   string
}{
	"overflow": {http.StatusBadRequest, `{"error":{"message":"This model's maximum context length is 1000 tokens.","type":"BadRequestError"}}`},
	"words":    {http.StatusBadRequest, `{"error":{"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`},
	"status":   {http.StatusInternalServerError, `{"error":{"message":"told to fail","type":"server_error"}}`},
	"busy":     {http.StatusServiceUnavailable, "busy"},
}

// answer streams tokens, or fails.
func answer(w http.ResponseWriter, fault string, tokens, bytes int) {
	if f, ok := failures[fault]; ok {
		w.WriteHeader(f.status)
		fmt.Fprint(w, f.body)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := w.(http.Flusher).Flush
	const head = `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`
	switch fault {
	case "empty":
		tokens = 0
	case "cut":
		tokens = max(1, tokens/2)
	}
	streamed := tokens
	for next := time.Now(); tokens > 0; tokens-- {
		fmt.Fprint(w, head+`{"index":0,"delta":{"content":" x"},"finish_reason":null}]}`+"\n\n")
		flush()
		next = next.Add(tokenGap)
		time.Sleep(time.Until(next))
	}
	if fault == "cut" {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, head+`{"index":0,"delta":{},"finish_reason":"length"}]}`+"\n\n")
	prompt := bytes / 5
	fmt.Fprintf(w, head+`],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`+"\n\ndata: [DONE]\n\n",
		prompt, streamed, prompt+streamed, prompt/2)
	flush()
}

// of returns the request with an id.
func (s *harnessServer) of(t *testing.T, id string) sentRequest {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one, ok := s.sent[id]
	require.True(t, ok, "no request came with X-Request-ID %s", id)
	return one
}

// without returns the bodies of the requests that have no rows, in order.
func (s *harnessServer) without(rows []playedRequest) (bodies []string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	others := maps.Clone(s.sent)
	for k := range rows {
		delete(others, rows[k].row.Metadata.RequestID)
	}
	for _, one := range others {
		bodies = append(bodies, fmt.Sprintf("%s gone %v: %s", one.fault, one.gone, one.body))
	}
	slices.Sort(bodies)
	return bodies
}
