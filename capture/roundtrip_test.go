package capture

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/trace"
)

// shape is what of a trace does not depend on the numbers of blocks, the order of requests and the clock.
type shape struct {
	digest string  // of its trie
	outs   []int64 // sorted
}

func shapeOf(trace *trace.Trace) shape {
	digest := weka.TrieOf(trace).Digest()
	s := shape{digest: hex.EncodeToString(digest[:])}
	for _, q := range requestsOf(trace) {
		s.outs = append(s.outs, max(1, q.Out))
	}
	slices.Sort(s.outs)
	return s
}

// requestsOf returns the requests of a trace, those of subagents included.
func requestsOf(trace *trace.Trace) (list []*trace.Request) {
	for k := range trace.Entries {
		e := &trace.Entries[k]
		if e.Subagent == nil {
			list = append(list, &e.Request)
			continue
		}
		for j := range e.Subagent.Requests {
			list = append(list, &e.Subagent.Requests[j])
		}
	}
	return list
}

func scan(t *testing.T, text []byte) *trace.Trace {
	t.Helper()
	trace, err := weka.Scan(text, rules.Default())
	require.NoError(t, err)
	return trace
}

// captureReplay replays a cache through a capture and returns the traces, which are good.
func captureReplay(t *testing.T, cache *mmapcache.Cache, blockSize int, change func(*replay.Options)) (traces []*trace.Trace) {
	t.Helper()
	r := start(t, mock.New(mock.Config{}), func(o *Options) { o.BlockSize = blockSize })
	o := replay.Options{
		Cache: cache, URLs: []string{r.traffic}, Model: "m", Endpoint: payload.Completions, Marker: payload.NoMarker, Concurrency: 4, Once: true, AllowWrap: true,
		Pace: replay.Pace{ASAP: true}, SessionHeader: replay.SessionHeader{More: []string{"X-Dynamo-Session-ID"}},
		SkipPreflight: true, Scrape: replay.Scrape{Off: true},
	}
	if change != nil {
		change(&o)
	}
	played, err := replay.Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, played.Requests, played.Completed)
	summary, _ := r.end()
	require.Equal(t, []int{played.Requests, played.Requests, 0}, []int{summary.Requests, summary.Recorded, summary.Incomplete}, "%+v\n%s", summary, r.logged)
	require.Empty(t, summary.NotRecorded)
	require.Empty(t, summary.Marks)
	list, err := filepath.Glob(filepath.Join(r.dir, journal.TracesDir, "*.json"))
	require.NoError(t, err)
	for _, path := range list {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Empty(t, weka.Check(text).Problems, path)
		traces = append(traces, scan(t, text))
	}
	return traces
}

// What is captured of a replay by token ids is what was recorded, block for block: of the demo corpus, of a trace with small blocks, and
// of the public traces, which lie in ../shared or are left out.
//
// Covers C-41.
func TestRoundTrip(t *testing.T) {
	for name, traces := range roundTrips(t) {
		t.Run(name, func(t *testing.T) {
			var want []shape
			blockSize := 0
			for line := range strings.Lines(traces) {
				trace := scan(t, []byte(line))
				want, blockSize = append(want, shapeOf(trace)), int(trace.BlockSize)
			}
			var got []shape
			for _, trace := range captureReplay(t, cachetest.Prepare(t, traces, "code"), blockSize, nil) {
				got = append(got, shapeOf(trace))
			}
			require.ElementsMatch(t, want, got)
		})
	}
}

// smallBlocks is a trace with blocks of 16 tokens, in which a request is sent twice, one goes back and one is alone.
const smallBlocks = `{"id":"small","models":["m"],"block_size":16,"hash_id_scope":"local","requests":[` +
	`{"t":0,"type":"n","model":"m","in":40,"out":3,"hash_ids":[1,2],"api_time":0.5},` +
	`{"t":1,"type":"n","model":"m","in":70,"out":0,"hash_ids":[1,2,3,4],"api_time":0.5,"think_time":0.5},` +
	`{"t":2,"type":"n","model":"m","in":70,"out":5,"hash_ids":[1,2,3,4],"api_time":0.5,"think_time":0.5},` +
	`{"t":3,"type":"n","model":"m","in":49,"out":1,"hash_ids":[1,2,5],"api_time":0.5,"think_time":0.5},` +
	`{"t":4,"type":"n","model":"m","in":16,"out":2,"hash_ids":[6],"api_time":0.5,"think_time":0.5}]}` + "\n"

// roundTrips returns the traces of each round trip, as JSON lines.
func roundTrips(t *testing.T) map[string]string {
	all := map[string]string{"demo": string(demo.JSONL()), "small blocks": smallBlocks}
	list, err := filepath.Glob("../../shared/corpus/traces/*.json")
	require.NoError(t, err)
	if len(list) == 0 {
		t.Log("without public traces: ../../shared/corpus/traces has none")
	}
	for _, path := range list {
		if info, err := os.Stat(path); testing.Short() && err == nil && info.Size() > 20_000 {
			continue // of long sessions
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all[filepath.Base(path)] = strings.ReplaceAll(string(text), "\n", " ") + "\n"
	}
	return all
}

// Through texts in messages, around which tokens for their structure stand, two prompts share the blocks that they shared, and no
// more than these tokens explain. What does not fill a block at the end of a prompt is not what the next one has there.
//
// Covers C-41.
func TestRoundTripOfMessages(t *testing.T) {
	for _, endpoint := range []payload.Endpoint{payload.ChatCompletions, payload.Messages} {
		pairs := 0
		for line := range strings.Lines(string(demo.JSONL())) {
			recorded := scan(t, []byte(line))
			captured := captureReplay(t, cachetest.Prepare(t, line, "code"), 64, func(o *replay.Options) { o.Endpoint = endpoint })
			require.Len(t, captured, 1)
			if hasAgents(captured[0]) {
				continue // whose requests may arrive in another order
			}
			was, is := requestsOf(recorded), requestsOf(captured[0])
			require.Len(t, is, len(was), recorded.ID)
			for k := range was {
				structure := is[k].In - was[k].In
				require.Greater(t, structure, int64(0))
				for j := range k {
					before, now := sharedBlocks(was[k], was[j]), sharedBlocks(is[k], is[j])
					require.GreaterOrEqual(t, now, before, "%s: requests %d and %d", recorded.ID, j, k)
					require.LessOrEqual(t, now, before+1+int(structure/64), "%s: requests %d and %d", recorded.ID, j, k)
					pairs++
				}
			}
		}
		require.Greater(t, pairs, 50)
	}
}

func hasAgents(t *trace.Trace) bool {
	return slices.ContainsFunc(t.Entries, func(e trace.Entry) bool { return e.Subagent != nil })
}

// sharedBlocks returns how many leading blocks two prompts share.
func sharedBlocks(a, b *trace.Request) (n int) {
	x, y := idsOf(a), idsOf(b)
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func idsOf(q *trace.Request) (ids []int64) {
	for _, r := range q.IDs.Runs {
		for k := range r.N {
			ids = append(ids, r.First+int64(k))
		}
	}
	return ids
}
