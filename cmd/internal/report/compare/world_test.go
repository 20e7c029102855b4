package compare

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modelled is a run whose requests follow a model: each tree has a level of its own, each request noise.
type modelled struct {
	info   measure.RunInfo
	trees  int
	slower float64 // latencies are multiplied by it
	noise  float64 // of a request, as part of its latency
	seed   uint64  // of the noise
	failed int     // requests that fail, from the first on
	late   int     // trees, of the last ones, that ended in the cooldown
	cut    int     // requests, of the last ones, that the end cancelled
	burst  int     // of every answer
	fork   uint64  // of the levels of the trees: another one, other trees
	warmup int     // requests before the others, one a second
}

var (
	sameRules   = map[string]json.RawMessage{"count-grace": json.RawMessage("false"), "throughput-window": json.RawMessage(`"benchmark"`), "itl-divisor": json.RawMessage(`"first-chunk"`)}
	phaseWindow = map[string]json.RawMessage{"throughput-window": json.RawMessage(`"phase"`)}
)

const turns = 8 // of a tree

// newModelled returns a run of trees in 8 lanes.
func newModelled(trees int) modelled {
	return modelled{info: exampleInfo(), trees: trees, slower: 1, noise: 0.05, seed: 1}
}

// exampleInfo returns what a run of agentx writes about itself.
func exampleInfo() measure.RunInfo {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	end := start.Add(10 * time.Minute)
	info := measure.RunInfo{
		Run: measure.Run{
			Version: "1.0.0", Commit: "abc", Host: "h", Start: start, End: &end, URL: "http://server", URLs: []string{"http://server"},
			Dataset: measure.Dataset{Key: "key", Profile: "default", Draws: json.RawMessage(`{"seed":42}`)}, Model: "m", Preset: "default",
		},
		Lanes: 8, Facts: &measure.Facts{PhaseDuration: 600, Cores: 4},
	}
	for _, o := range [][2]string{
		{"concurrency", "8"}, {"seed", "42"}, {"payload", `"chat"`}, {"duration", "600"}, {"max-context", "0"},
		{"marker", `"first_turn_prefix"`}, {"speed", "1"}, {"grace", "30"},
	} {
		info.Options = append(info.Options, measure.Option{Name: o[0], Value: json.RawMessage(o[1]), From: "default"})
	}
	return info
}

// set changes an option of a run.
func (m *modelled) set(name, value string) {
	m.info.Options = append([]measure.Option{}, m.info.Options...)
	for k := range m.info.Options {
		if m.info.Options[k].Name == name {
			m.info.Options[k].Value = json.RawMessage(value)
			return
		}
	}
	m.info.Options = append(m.info.Options, measure.Option{Name: name, Value: json.RawMessage(value)})
}

// write writes the files of the run.
func (m *modelled) write(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.MkdirAll(dir, 0o777))
	data, err := json.Marshal(m.info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), data, 0o600))
	w, err := measure.Create(dir)
	require.NoError(t, err)
	noise, ends := rand.New(rand.NewPCG(m.seed, 0)), map[int]measure.Time{}
	for k := range m.warmup {
		r := m.record(0, 0, 1, rand.New(rand.NewPCG(m.seed, 1)))
		r.Phase, r.Bucket, r.Credit, r.Due = measure.WarmupPhase, measure.WarmupBucket, k, measure.At(float64(k))
		r.shift(r.Due)
		require.NoError(t, w.Write(&r.Record))
	}
	for tree := range m.trees {
		level := 0.5 + rand.New(rand.NewPCG(uint64(tree), m.fork)).Float64() // of the tree, in every run that plays it
		lane := tree % 8
		for turn := range turns {
			r := m.record(tree, turn, level, noise)
			r.Lane, r.Credit = lane, tree*turns+turn
			r.Due = ends[lane] + measure.At(0.5)
			r.shift(r.Due)
			ends[lane] = r.End
			require.NoError(t, w.Write(&r.Record))
		}
	}
	require.NoError(t, w.Close())
	return dir
}

// shifted is a record whose instants count from its own start.
type shifted struct{ measure.Record }

func (r *shifted) shift(by measure.Time) {
	for _, at := range []*measure.Time{&r.Admitted, &r.Sent, &r.FirstToken, &r.LastToken, &r.LastMessage, &r.End} {
		*at += by
	}
	if r.Error != nil {
		r.FirstToken, r.LastToken, r.LastMessage = 0, 0, 0
	}
}

// record returns a request that was sent at 0.
func (m *modelled) record(tree, turn int, level float64, noise *rand.Rand) shifted {
	factor := m.slower * (1 + m.noise*(noise.Float64()-0.5))
	ttft, itl := 0.2*level*factor, 0.01*level*factor
	prompt, output := int64(1000+100*turn), int64(20+turn)
	r := shifted{measure.Record{
		Phase: measure.ProfilingPhase, Tree: tree, Trace: "trace-" + strconv.Itoa(tree), Session: "trace-" + strconv.Itoa(tree), Turn: turn,
		SourceKind: "weka_main", RequestID: "r", CorrelationID: "c", RootID: "c", Numbers: measure.Numbers{Sent: measure.At(0.0001), Admitted: measure.At(0.0001), FirstToken: measure.At(0.0001 + ttft),
			LastToken: measure.At(0.0001 + ttft + itl*float64(output-1)), Status: 200, MaxTokens: output, PromptTokens: measure.Tokens(prompt), OutputTokens: measure.Tokens(output)},
		Transfer: measure.Transfer{Chunks: 0}, Burst: m.burst, Bucket: measure.Profiling,
	}}
	r.LastMessage, r.End = r.LastToken, r.LastToken+measure.At(0.0001)
	if tree >= m.trees-m.late {
		r.Bucket = measure.Cooldown
	}
	if tree*turns+turn >= m.trees*turns-m.cut {
		r.Bucket, r.Error = measure.CancelledAtEnd, &measure.Error{Category: wire.Cancelled, Message: "cancelled"}
	}
	if tree*turns+turn < m.failed {
		r.Error, r.Status = &measure.Error{Category: wire.Category("http_5xx"), Code: 500, Message: "no"}, 500
		r.PromptTokens, r.OutputTokens = 0, 0
	}
	return r
}

// compareDirs compares directories.
func compareDirs(t *testing.T, dirs ...string) *Comparison {
	t.Helper()
	var list []Source
	for _, dir := range dirs {
		list = append(list, Source{Dir: dir})
	}
	c, err := Make(t.Context(), list, Options{})
	require.NoError(t, err)
	return c
}

// table returns the table of a comparison.
func (c *Comparison) tableText(t *testing.T) string {
	t.Helper()
	var b writer
	require.NoError(t, c.WriteTable(&b, 0))
	return string(b)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }
