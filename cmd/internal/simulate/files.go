package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/measure"
)

// The files of a run: doc/spec/simulate.md 9.4. Equal runs give equal bytes in all but timingFile and, for its wall time, dynamoFile.
const (
	summaryFile  = "summary.json"
	requestsFile = "requests.jsonl"
	timingFile   = "timing.json"
	dynamoFile   = "dynamo.json"
	PageFile     = "simulate.html"
	LogFile      = "simulate.log.jsonl.gz" // beside the page
)

// ErrResultsExist says that a directory holds the results of a run.
var ErrResultsExist = errors.New("it holds results")

// Timing is what a run cost, in seconds and bytes.
type Timing struct {
	Wall        float64 `json:"wall"`
	CPU         float64 `json:"cpu"` // of the process, which other runs may share
	RequestRate float64 `json:"requests_per_second"`
	PeakRSS     int64   `json:"peak_rss"`
}

// Files say which files of a run are written, and where.
type Files struct {
	Dir        string
	PerRequest bool // requestsFile
	Dynamo     bool // dynamoFile
	Overwrite  bool // replaces the files of another run
	Made       []MadeFile

	lines *requestLines // of requestsFile, since Begin; nil: Write writes those of a result
}

// MadeFile is a file of a run that somebody else makes, such as its page.
type MadeFile struct {
	Name string
	Data []byte
}

// Check returns an error that wraps ErrResultsExist if the directory holds results that stay.
func (f Files) Check() error { return f.CheckFile(summaryFile) }

// CheckFile is Check for the results that a file says of.
func (f Files) CheckFile(name string) error {
	if f.Dir == "" || f.Overwrite {
		return nil
	}
	_, err := os.Lstat(filepath.Join(f.Dir, name))
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w: %s", f.Dir, ErrResultsExist, name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// Write writes the files of a run, the summary last. Each appears whole.
func (f Files) Write(r *Result, s *Summary, t Timing) error {
	if err := f.Check(); err != nil {
		return err
	}
	if err := os.MkdirAll(f.Dir, 0o777); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := f.remove(); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	var errs []error
	if f.PerRequest {
		errs = append(errs, f.writeRequests(r))
	}
	if f.Dynamo {
		errs = append(errs, f.writeJSON(dynamoFile, r.dynamo(s, t.Wall)))
	}
	errs = append(errs, WriteMade(f.Dir, f.Made))
	var line bytes.Buffer
	errs = append(errs, f.writeJSON(timingFile, t), s.WriteJSON(&line), f.write(summaryFile, line.Bytes()))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}

// WriteMade writes files that somebody else has made to a directory. Each appears whole.
func WriteMade(dir string, files []MadeFile) error {
	var errs []error
	for _, one := range files {
		errs = append(errs, durable.WriteFile(filepath.Join(dir, one.Name), one.Data))
	}
	return errors.Join(errs...)
}

// remove removes the files of another run: readers would take those that are not written again for those of this one.
func (f Files) remove() error {
	for _, name := range []string{summaryFile, requestsFile, timingFile, dynamoFile, PageFile, LogFile} {
		if err := os.Remove(filepath.Join(f.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// writeJSON writes a value as indented JSON to a file of the directory.
func (f Files) writeJSON(name string, v any) error {
	var text bytes.Buffer
	if err := terminal.IndentedJSON(&text, v); err != nil {
		return err
	}
	return f.write(name, text.Bytes())
}

func (f Files) write(name string, data []byte) error {
	return durable.WriteFile(filepath.Join(f.Dir, name), data)
}

// RequestLine is a line of requests.jsonl. Times are nanoseconds from the start of the run, null where nothing happened.
type RequestLine struct {
	Session      int    `json:"session"`
	Turn         int    `json:"turn"`
	Arrival      int64  `json:"arrival"`
	Admitted     *int64 `json:"admitted"` // first admission
	FirstToken   *int64 `json:"first_token"`
	SecondToken  *int64 `json:"second_token"`
	LastToken    *int64 `json:"last_token"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"` // asked for
	Emitted      int    `json:"emitted"`
	Reused       int    `json:"reused"` // prompt tokens found at the first admission
	ReusedMax    int    `json:"reused_max"`
	DecodeReused int    `json:"decode_reused"` // prompt tokens that its decode worker had
	Recomputed   int    `json:"recomputed_tokens"`
	Loaded       int    `json:"loaded_tokens,omitempty"` // from tiers below the pool
	LoadWait     int64  `json:"load_wait,omitempty"`     // for them
	Worker       *int   `json:"worker"`
	Admissions   int    `json:"admissions"`
	Preemptions  int    `json:"preemptions"`
	Status       string `json:"status"`
}

// LineOf returns the line of a request.
func LineOf(q *fleet.Request) RequestLine {
	when := func(at int64, happened bool) *int64 {
		if !happened {
			return nil
		}
		return &at
	}
	line := RequestLine{
		Session: q.Session, Turn: q.Number, Arrival: q.Arrival,
		Admitted: when(q.Admitted, q.Admissions > 0), FirstToken: when(q.First, q.Tokens > 0),
		SecondToken: when(q.Second, q.Tokens > 1), LastToken: when(q.Last, q.Tokens > 0),
		InputTokens: q.Prompt, OutputTokens: q.Output, Emitted: q.Tokens, Reused: q.Reused, ReusedMax: q.ReusedMax, DecodeReused: q.Resident,
		Recomputed: q.Recomputed, Loaded: q.Front().Loaded, LoadWait: q.Front().LoadWait, Admissions: q.Admissions, Preemptions: q.Preemptions, Status: q.Status.String(),
	}
	if q.Worker >= 0 {
		line.Worker = &q.Worker
	}
	return line
}

// requestLines writes a JSON line of each request, in the order of release.
type requestLines struct {
	file *durable.File // nil: the lines go elsewhere
	out  *bufio.Writer
	json *json.Encoder
	err  error // the first
}

func newRequestLines(w io.Writer) *requestLines {
	out := bufio.NewWriterSize(w, 1<<16)
	return &requestLines{out: out, json: json.NewEncoder(out)}
}

// add writes the line of the request that was released next.
func (l *requestLines) add(q *fleet.Request) {
	if l.err == nil {
		l.err = l.json.Encode(LineOf(q))
	}
}

// end writes what is left.
func (l *requestLines) end() error { return errors.Join(l.err, l.out.Flush()) }

// Begin begins requestsFile, so that a run which forgets its requests can tell Add of each. Write then publishes it; without Write the
// caller calls Discard.
func (f *Files) Begin() error {
	err := os.MkdirAll(f.Dir, 0o777)
	var file *durable.File
	if err == nil {
		file, err = durable.NewFile(filepath.Join(f.Dir, requestsFile), durable.Options{})
	}
	if err != nil {
		return fmt.Errorf("results: %w", err)
	}
	f.lines = newRequestLines(file)
	f.lines.file = file
	return nil
}

// Add writes the request that was released next, after Begin. Write returns its error.
func (f *Files) Add(q *fleet.Request) { f.lines.add(q) }

// Discard removes what Begin has begun, unless Write has published it.
func (f *Files) Discard() error { return f.lines.file.Discard() }

// writeRequests publishes requestsFile.
func (f *Files) writeRequests(r *Result) error {
	if f.lines == nil {
		if err := f.Begin(); err != nil {
			return err
		}
		for _, q := range r.Requests {
			f.Add(q)
		}
	}
	if err := f.lines.end(); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.lines.file.Publish()
}

// dynamo returns the flat object that users of Dynamo's report read, in milliseconds: doc/spec/simulate.md 9.4. wall is how long
// the run took, in seconds.
func (r *Result) dynamo(s *Summary, wall float64) map[string]any {
	rate := func(tokens int64) measure.Number { return perSecond(tokens, r.Duration) }
	o := map[string]any{
		"num_requests": s.Requests, "completed_requests": s.Completed, "total_input_tokens": s.InputTokens, "total_output_tokens": s.OutputTokens,
		"duration_ms": float64(r.Duration) / 1e6, "wall_time_ms": wall * 1e3, "request_throughput_rps": s.RequestRate,
		"input_throughput_tok_s": rate(s.InputTokens), "output_throughput_tok_s": rate(s.OutputTokens), "total_throughput_tok_s": rate(s.InputTokens + s.OutputTokens),
		"prefix_cache_reused_ratio": s.ReuseMax, "first_admission_prefix_cache_reused_ratio": s.Reuse,
	}
	all := s.InputTokens + s.OutputTokens
	maps.Copy(o, map[string]any{
		"kv_eviction_policy": "lru", "committed_prefill_tokens": r.Counts().Prompt, "gpu_hours": s.GPUHours, "power_w": nil, "power_coverage": nil,
		"num_ttft_samples": s.TTFT.N, "num_tpot_samples": s.ITL.N, "num_e2e_latency_samples": s.RequestLatency.N, "processed_tokens": all,
		"processed_tokens_per_s": measure.Number(float64(all) / wall), "processed_output_tokens_per_s": measure.Number(float64(s.OutputTokens) / wall),
	})
	for k, name := range []string{"decode", "prefill"} { // an aggregated pool decodes
		seconds, gpus, at := 0.0, 0, len(r.Workers)-1-k
		if at >= 0 {
			seconds, gpus = r.workerSeconds(at), r.Config.Engines()[at].Config.GPUsPerWorker
		}
		o[name+"_worker_seconds"], o[name+"_gpus_per_worker"] = seconds, gpus
	}
	add := func(name string, d Distribution, factor float64) {
		for stat, v := range d.named() {
			o[stat+"_"+name] = v * measure.Number(factor)
		}
	}
	add("ttft_ms", s.TTFT, 1e3)
	add("ttst_ms", s.TTST, 1e3)
	add("tpot_ms", s.ITL, 1e3)
	add("itl_ms", s.TokenGap, 1e3)
	add("e2e_latency_ms", s.RequestLatency, 1e3)
	add("output_token_throughput_per_user", r.tokensPerUser(), 1)
	return o
}

// named returns the nine figures under the names of Dynamo's report.
func (d *Distribution) named() map[string]measure.Number {
	return map[string]measure.Number{
		"mean": d.Mean, "min": d.Min, "max": d.Max, "median": d.P50, "p75": d.P75, "p90": d.P90, "p95": d.P95, "p99": d.P99, "std": d.Std,
	}
}

// tokensPerUser returns the distribution of the inverse of every gap, per second, within a thousandth. Gaps of no time have none.
func (r *Result) tokensPerUser() Distribution {
	var values, counts []float64
	n, mean := 0.0, 0.0
	for ns, count := range r.Gaps.All() {
		if ns > 0 {
			values, counts = append(values, 1e9/ns), append(counts, float64(count))
			n += float64(count)
			mean += float64(float64(count) * 1e9 / ns)
		}
	}
	if n == 0 {
		return distributionOf(nil)
	}
	mean /= n
	squares := 0.0
	for k, v := range values {
		squares += float64(counts[k] * float64((v-mean)*(v-mean)))
	}
	at := func(q float64) measure.Number {
		left := math.Floor((n-1)*q/100 + 0.5)
		for k, v := range slices.Backward(values) { // gaps rise, so rates fall
			if left -= counts[k]; left < 0 {
				return measure.Number(v)
			}
		}
		return measure.Number(values[0])
	}
	return Distribution{
		Mean: measure.Number(mean), Min: at(0), Max: at(100), Std: measure.Number(math.Sqrt(squares / n)),
		P50: at(50), P75: at(75), P90: at(90), P95: at(95), P99: at(99), N: int64(n),
	}
}
