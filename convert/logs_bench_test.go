package convert

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/mmapcache"
)

// claudeLogs writes logs of Claude Code in which, as in real ones, a quarter of the bytes are distinct messages, most of the others what the
// client notes beside results and of hooks. It returns the directory, and all of its bytes.
func claudeLogs(t testing.TB, sessions int) (dir string, data []byte) {
	r := rand.New(rand.NewPCG(3, 9))
	lines := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, "\t%c%d, err := read(\"%x\") // line of it\n", 'a'+r.IntN(26), r.IntN(1e6), r.Uint64())
		}
		return b.String()
	}
	dir = t.TempDir()
	for s := range sessions {
		var b strings.Builder
		n, parent := 0, "null"
		row := func(kind, format string, args ...any) {
			n++
			id := fmt.Sprintf(`"%08d-0000-4000-8000-%012d"`, s, n)
			fmt.Fprintf(&b, `{"parentUuid":%s,"isSidechain":false,"cwd":"/home/dev/shop","sessionId":"%08d","version":"2.1.27","gitBranch":"main","type":%q,"uuid":%s,"timestamp":"2026-01-02T%02d:%02d:%02d.000Z",%s}`+"\n",
				parent, s, kind, id, 10+n/3600, n/60%60, n%60, fmt.Sprintf(format, args...))
			parent = id
		}
		row("user", `"message":{"role":"user","content":"Fix it."}`)
		for k := range 50 {
			said := lines(3000)
			row("assistant", `"requestId":"r%d-%d","message":{"model":"m","id":"m%d-%d","role":"assistant","content":[{"type":"text","text":%q},{"type":"tool_use","id":"t%d-%d","name":"Read","input":{"file_path":"/x/%x"}}],"stop_reason":"tool_use","usage":{"input_tokens":%d,"output_tokens":90}}`,
				s, k, s, k, lines(200), s, k, r.Uint64(), 20000+1500*k)
			row("progress", `"data":{"type":"hook_progress","hookEvent":"PostToolUse","command":%q}`, lines(3500))
			row("user", `"message":{"role":"user","content":[{"tool_use_id":"t%d-%d","type":"tool_result","content":%q}]},"toolUseResult":{"stdout":%q,"originalFile":%q}`, s, k, said, said, said)
		}
		data = append(data, b.String()...)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.jsonl", s)), []byte(b.String()), 0o600))
	}
	return dir, data
}

// textOptions are options to convert logs into a new root as the command does, but for syncing.
func textOptions(b *testing.B, dir string) Options {
	o := options(b, dir).withDefaults()
	o.Corpus, o.Tokenizer = DefaultCorpus, DefaultTokenizer
	return o
}

// fastest returns the shortest of some runs of f: what other programs take of the machine makes others longer.
func fastest(runs int, f func()) (shortest time.Duration) {
	for range runs {
		begin := time.Now()
		f()
		if d := time.Since(begin); shortest == 0 || d < shortest {
			shortest = d
		}
	}
	return shortest
}

// atMost fails a benchmark whose figure is above a bound.
func atMost(b *testing.B, what string, figure, bound float64) {
	b.ReportMetric(figure, what)
	if figure > bound {
		b.Errorf("%s: %.3g, at most %.3g is wanted", what, figure, bound)
	}
}

// BenchmarkTextCache compares a conversion of logs with the least that it must do: SHA-256 of the files, and one pass over their JSON.
// bytes/byte is how large the cache is beside its log.
//
// 348 MB of real logs of Claude Code take 2.8 s of CPU, 125 MB/s: SHA-256 with the first reading 0.35 s, the second reading 0.2, members of
// rows 0.55, texts and their digests 0.55, the tokens of 13,000 answers whose recorded length is a placeholder 0.3, bodies 0.4, the arenas of
// a new root 0.2. At 300 MB/s it would be 1.2 s, of which the first and the fifth leave half.
func BenchmarkTextCache(b *testing.B) {
	dir, data := claudeLogs(b, 120)
	base := textOptions(b, dir)
	r := base.convert(b)
	least := func() {
		sum := sha256.New()
		sum.Write(data)
		for row := range bytes.Lines(data) {
			_, err := content.Value(row)
			require.NoError(b, err)
		}
	}
	size := int64(0)
	for _, kind := range []string{mmapcache.TextsKind, mmapcache.StructureKind} {
		files, err := filepath.Glob(filepath.Join(base.Root, kind, r.Parts[kind].Key, "*"))
		require.NoError(b, err)
		for _, f := range files {
			info, err := os.Stat(f)
			require.NoError(b, err)
			size += info.Size()
		}
	}
	b.SetBytes(int64(len(data)))
	floor, build := time.Duration(1<<62), time.Duration(1<<62)
	for b.Loop() {
		floor = min(floor, fastest(3, least))
		o := withArenas(b, base)
		build = min(build, fastest(1, func() { o.convert(b) }))
	}
	b.ReportMetric(float64(len(data))/1e6/build.Seconds(), "MB/s-of-the-fastest")
	atMost(b, "x-least", float64(build)/float64(floor), 4)
	atMost(b, "bytes/byte", float64(size)/float64(len(data)), 0.27)
}

// textPrompts renders all prompts of a dataset of logs.
func textPrompts(b *testing.B, c *mmapcache.Cache) (trees []*mmapcache.RenderedTrace) {
	for i := range c.Structure.Traces.Len() {
		tree, err := c.Render(i, mmapcache.ChatMessages)
		require.NoError(b, err)
		trees = append(trees, tree)
	}
	return trees
}

// BenchmarkTextHit measures the time from the path of a dataset to the first body, beside one copy of its texts: a hit reads none of them.
func BenchmarkTextHit(b *testing.B) {
	dir, _ := claudeLogs(b, 60)
	o := textOptions(b, dir)
	r := o.convert(b)
	var body []byte
	hit := func() {
		c, err := mmapcache.Open(o.Root, r.Key)
		require.NoError(b, err)
		tree, err := c.Render(0, mmapcache.ChatMessages)
		require.NoError(b, err)
		var p mmapcache.Prompt
		tree.Prompt(0, &p)
		body = p.AppendContent(body[:0], 0)
		require.NoError(b, c.Close())
	}
	shortest := time.Duration(1 << 62)
	for b.Loop() {
		shortest = min(shortest, fastest(5, hit))
	}
	b.ReportMetric(shortest.Seconds()*1000, "ms")
	atMost(b, "x-copy", float64(shortest.Nanoseconds())/copyTime(float64(r.Texts.Bytes)), 2.5)
}

// BenchmarkTextBody compares bodies with one copy of as many bytes from memory that the caches do not hold.
func BenchmarkTextBody(b *testing.B) {
	dir, _ := claudeLogs(b, 60)
	o := textOptions(b, dir)
	c := openResult(b, o, o.convert(b))
	trees := textPrompts(b, c)
	var body []byte
	size := 0
	bodies := func() {
		size = 0
		for _, tree := range trees {
			var p mmapcache.Prompt
			for k := range tree.Turns {
				tree.Prompt(k, &p)
				body = body[:0]
				for m := range p.Messages {
					body = p.AppendContent(body, m)
				}
				size += len(body)
			}
		}
	}
	shortest := time.Duration(1 << 62)
	for b.Loop() {
		shortest = min(shortest, fastest(3, bodies))
	}
	perBody := float64(size) / float64(c.Structure.Turns.Len())
	b.ReportMetric(float64(size)/float64(shortest.Nanoseconds()), "GB/s")
	atMost(b, "x-copy", float64(shortest.Nanoseconds())/float64(size)*perBody/copyTime(perBody), 2)
}
