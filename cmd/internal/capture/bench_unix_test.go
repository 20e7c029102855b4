//go:build unix

package capture

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
)

// benchShape is how large the sessions of BenchmarkSessions are, in bytes of code.
type benchShape struct {
	name            string
	sessions, turns int
	first, turn     int // the first turn, which is not measured, and each later one
	tools, system   int
	unnamed         bool // sessions are those of clients, each with a key
}

// benchSession is a session of Anthropic's Messages, in the order of keys of Claude Code. Body k ends its messages at ends[k].
type benchSession struct {
	messages, tail string
	ends           []int
	said           []string // what is new in each turn
}

// newBenchSession makes a session of code.
func newBenchSession(b *testing.B, code string, s benchShape, seed uint64) (session benchSession) {
	random := rand.New(rand.NewPCG(seed, 1))
	some := func(size int) string {
		from := random.IntN(len(code) - 4000)
		text := fmt.Sprint(random.Uint64())
		for len(text) < size {
			text += code[from : from+min(4000, size-len(text))]
			from = random.IntN(len(code) - 4000)
		}
		return text
	}
	quote := func(text string) string {
		quoted, err := json.Marshal(text)
		require.NoError(b, err)
		return string(quoted)
	}
	var messages strings.Builder
	messages.WriteString(`{"model":"m","messages":[`)
	for k := range s.turns + 1 {
		size := s.turn
		if k == 0 {
			size = s.first
		}
		said := some(size)
		session.said = append(session.said, said+"Done.")
		if k > 0 {
			messages.WriteString(`,{"role":"assistant","content":[{"type":"text","text":"Done."}]},`)
		}
		messages.WriteString(`{"role":"user","content":[{"type":"text","text":` + quote(said) + `}]}`)
		session.ends = append(session.ends, messages.Len())
	}
	session.messages = messages.String()
	session.tail = `],"system":[{"type":"text","text":` + quote(some(s.system)) + `}],"tools":[`
	for k := 0; k*2000 < s.tools; k++ {
		session.tail += `{"name":"t` + fmt.Sprint(k) + `","description":` + quote(some(2000)) + `,"input_schema":{"type":"object"}},`
	}
	session.tail = strings.TrimSuffix(session.tail, ",") + `],"max_tokens":5}`
	return session
}

// ask sends a turn.
func (s *benchSession) ask(b *testing.B, url, key string, turn int, header string) {
	text := s.messages[:s.ends[turn]]
	req, err := http.NewRequest(http.MethodPost, url, io.MultiReader(strings.NewReader(text), strings.NewReader(s.tail)))
	require.NoError(b, err)
	req.ContentLength = int64(len(text) + len(s.tail))
	req.Header.Set(captureHeader, header)
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(b, err)
	resp.Body.Close()
}

// BenchmarkSessions records sessions of code, of which each turn has all turns before. Metrics: the CPU time that observing takes over
// what the same traffic takes when the workers tokenize nothing but what is new in each turn (the traffic alone is taken off both);
// and megabytes of live memory for 1,000 sessions that are open.
//
// Covers C-43.
func BenchmarkSessions(b *testing.B) {
	for _, shape := range []benchShape{
		{name: "from-the-start", sessions: 8, turns: 50, turn: 9300},
		{name: "late", sessions: 4, turns: 20, first: 1 << 20, turn: 4000, tools: 60_000, system: 15_000},
		{name: "late-unnamed", sessions: 4, turns: 20, first: 1 << 20, turn: 4000, tools: 60_000, system: 15_000, unnamed: true},
	} {
		b.Run(shape.name, func(b *testing.B) { benchmarkSessions(b, shape) })
	}
}

// ways in which the traffic of BenchmarkSessions passes.
const (
	unseen    = iota
	tokenized // beside it, workers tokenize what is new
	recorded
)

func benchmarkSessions(b *testing.B, shape benchShape) {
	reply := []byte(`{"type":"message","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}`)
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	})
	r := start(b, upstream, func(o *Options) { o.BlockSize = 64 })
	code := sourceCode(b)
	var list []benchSession
	for k := range shape.sessions {
		list = append(list, newBenchSession(b, code, shape, uint64(k)))
	}
	play := func(round, way int) (used time.Duration) {
		header := map[bool]string{false: "off", true: "on"}[way == recorded]
		turns := func(k, from, to int) {
			for turn := from; turn < to; turn++ {
				name := fmt.Sprintf("b%d-%d", round, k)
				url := r.traffic + "/v1/messages"
				if !shape.unnamed {
					url = r.traffic + "/s/" + name + "/v1/messages"
				}
				list[k].ask(b, url, name, turn, header)
				if way == tokenized && turn > 0 {
					r.pool.run(nil, func() { _ = r.options.Tokenizer.AppendIDs(nil, list[k].said[turn]) })
				}
			}
		}
		for _, part := range [][2]int{{0, 1}, {1, shape.turns + 1}} {
			begin := cpuTime()
			var group sync.WaitGroup
			for k := range list {
				group.Go(func() { turns(k, part[0], part[1]) })
			}
			group.Wait()
			for !r.pool.resting() {
				time.Sleep(time.Millisecond)
			}
			for r.pool.used() > 0 {
				time.Sleep(time.Millisecond)
			}
			used = cpuTime() - begin // in the end of the later turns
		}
		return used
	}
	play(0, recorded) // opens connections, fills pools
	before := liveBytes()
	var used [3]time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		for way := range used {
			took := play(rounds, way)
			if rounds == 1 || took < used[way] { // a shared machine makes rounds longer, and none shorter
				used[way] = took
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	b.ReportMetric(float64(liveBytes()-before)/float64(rounds*shape.sessions)*1000/1e6, "MB/1000-sessions")
	runtime.KeepAlive(list)
	turns := time.Duration(shape.sessions * shape.turns)
	b.ReportMetric(float64((used[tokenized]-used[unseen])/turns)/1e3, "µs-tokenizing/turn")
	b.ReportMetric(float64((used[recorded]-used[unseen])/turns)/1e3, "µs-observing/turn")
	b.ReportMetric(float64(used[recorded]-used[unseen])/float64(used[tokenized]-used[unseen]), "cpu-observing/tokenizing")
	b.ReportMetric(0, "ns/op")
	summary, _ := r.end()
	require.Equal(b, shape.sessions*(shape.turns+1)*(rounds+1), summary.Recorded)
}

// BenchmarkReading reads the bodies of sessions, each of which has all turns before, as a worker does, on one goroutine. Metrics: what
// that takes over tokenizing what is new in each turn, and over the least that it can: one pass of XXH3 over the body, tokenizing what is
// new, and one SHA-256 of its tokens. It fails where the second is more than 2.
//
// Covers C-43.
func BenchmarkReading(b *testing.B) {
	for _, shape := range []benchShape{
		{name: "from-the-start", turns: 50, turn: 9300},
		{name: "late", turns: 20, first: 1 << 20, turn: 4000, tools: 60_000, system: 15_000},
		{name: "late-unnamed", turns: 20, first: 1 << 20, turn: 4000, tools: 60_000, system: 15_000, unnamed: true},
	} {
		b.Run(shape.name, func(b *testing.B) { benchmarkReading(b, shape) })
	}
}

func benchmarkReading(b *testing.B, shape benchShape) {
	tok, err := tokens()
	require.NoError(b, err)
	session := newBenchSession(b, sourceCode(b), shape, 1)
	var bodies [][]byte
	for _, end := range session.ends {
		bodies = append(bodies, []byte(session.messages[:end]+session.tail))
	}
	read := func(tree *chain.Tree, turn int) {
		r := tree.Begin(canon.Messages, bodies[turn])
		if shape.unnamed {
			_, err := r.Options()
			require.NoError(b, err)
		}
		_, prepared, err := r.Read()
		require.NoError(b, err)
		_, err = tree.Apply(turn, prepared)
		require.NoError(b, err)
	}
	var ids []uint32
	var text []byte
	tokenize := func(_ *chain.Tree, turn int) { ids = tok.AppendIDs(ids[:0], session.said[turn]) }
	least := func(_ *chain.Tree, turn int) {
		xxh3.Hash128Seed(bodies[turn], 1)
		tokenize(nil, turn)
		text = text[:0]
		for _, id := range ids {
			text = binary.LittleEndian.AppendUint32(text, id)
		}
		sha256.Sum256(text)
	}
	ways := []func(*chain.Tree, int){read, tokenize, least}
	took := make([][3]time.Duration, shape.turns+1)
	for round := 0; b.Loop(); round++ {
		for way, do := range ways {
			tree, err := chain.New([sha256.Size]byte{byte(round)}, chain.Options{Tokenizer: tok, Name: "t", BlockSize: 64})
			require.NoError(b, err)
			for turn := range took {
				begin := time.Now()
				do(tree, turn)
				if t := time.Since(begin); round == 0 || t < took[turn][way] { // other programs make it longer, and none shorter
					took[turn][way] = t
				}
			}
			tree.Erase()
		}
	}
	var all [3]time.Duration
	for _, turn := range took[1:] {
		for way, t := range turn {
			all[way] += t
		}
	}
	over := func(way int) float64 { return float64(all[0]) / float64(all[way]) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(all[0].Microseconds())/float64(shape.turns), "µs/turn")
	b.ReportMetric(over(1), "reading/tokenizing")
	b.ReportMetric(over(2), "reading/least")
	if over(2) > 2 {
		b.Errorf("reading a turn takes %.2f times the least: should be 2 or less", over(2))
	}
}

// sourceCode returns the code of these packages.
func sourceCode(b *testing.B) string {
	files, err := filepath.Glob("*/*.go")
	require.NoError(b, err)
	code := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(b, err)
		code += string(text)
	}
	return code
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // frees what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
