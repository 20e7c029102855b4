package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alitto/pond/v2"
	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// benchInput returns the input of the benchmarks: the public traces where they exist, else the demo traces under many ids.
func benchInput(b *testing.B) string {
	public := filepath.Join("..", "..", "shared", "corpus", "weka-v8-600.jsonl.zst")
	if _, err := os.Stat(public); err == nil {
		return public
	}
	var text []byte
	for k := range 300 {
		text = append(text, bytes.ReplaceAll(demo.JSONL(), []byte(`"id":"`), fmt.Appendf(nil, `"id":"%d-`, k))...)
	}
	return write(b, "demo.jsonl.zst", zst(b, text))
}

// benchRows reads the rows of the input into memory.
func benchRows(b *testing.B) (rows [][]byte, size int64) {
	s, err := hfsource.Resolve(b.Context(), []string{benchInput(b)}, hfsource.Options{})
	require.NoError(b, err)
	require.NoError(b, s.Rows(b.Context(), nil, nil, func(r hfsource.Row) error {
		rows = append(rows, bytes.Clone(r.Data))
		size += int64(len(r.Data))
		r.Free()
		return nil
	}))
	return rows, size
}

func BenchmarkScan(b *testing.B) {
	rows, size := benchRows(b)
	b.SetBytes(size)
	for b.Loop() {
		for _, row := range rows {
			_, err := weka.Scan(row, rules.Default())
			require.NoError(b, err)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	rows, size := benchRows(b)
	var traces []*trace.Trace
	for _, row := range rows {
		tr, err := weka.Scan(row, rules.Default())
		require.NoError(b, err)
		traces = append(traces, tr)
	}
	b.SetBytes(size)
	for b.Loop() {
		for _, tr := range traces {
			_, _, err := reconstruct.MakePlan(tr, rules.Default())
			require.NoError(b, err)
		}
	}
}

func BenchmarkFill(b *testing.B) {
	for _, backend := range rules.Backends() {
		b.Run(backend, func(b *testing.B) {
			o := options(b, benchInput(b)).withDefaults()
			o.Placement.Backend, o.Corpus = backend, DefaultCorpus
			r := o.convert(b)
			c, err := mmapcache.OpenStructure(o.Root, r.Parts[mmapcache.StructureKind].Key)
			require.NoError(b, err)
			defer c.Close()
			tok, err := tokenizer.Load(o.Tokenizer)
			require.NoError(b, err)
			ids := tok.Encode(string(corpus.Code()))
			e, err := tok.Edges(ids, true)
			require.NoError(b, err)
			g := placing{structure: c.Structure, tokens: len(ids), edges: &reconstruct.Edges{Starts: e.Starts, Ends: e.Ends}}
			for b.Loop() {
				dir, err := mmapcache.NewBuilder(durable.WithOptions(b.Context(), o.disk), b.TempDir(), mmapcache.PlacementKind, "k")
				require.NoError(b, err)
				table, err := dir.NewPlacement(c.Structure.Blocks()+c.Structure.Turns.Len(), g.tokens)
				require.NoError(b, err)
				g.table = table
				require.NoError(b, g.run(b.Context(), o))
				table.Abort()
				dir.Discard()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.Structure.Blocks()), "ns/block")
		})
	}
}

// BenchmarkHit compares finding a cache that exists with reading and hashing its input in the same run. It fails where the input's rows, or
// windows to unpack them, cost more again: before, a hit took 50 to 100 times as long as hashing, not 3 to 6.
func BenchmarkHit(b *testing.B) {
	path := benchInput(b)
	o := options(b, path)
	o.convert(b)
	var floor, hit time.Duration
	for b.Loop() {
		begin := time.Now()
		data, err := os.ReadFile(path)
		require.NoError(b, err)
		_ = sha256.Sum256(data)
		floor += time.Since(begin)
		begin = time.Now()
		o.convert(b)
		hit += time.Since(begin)
	}
	ratio := float64(hit) / float64(floor)
	b.ReportMetric(ratio, "x-hashing")
	if b.N > 2 && ratio > 12 {
		b.Errorf("a hit takes %.1f times as long as hashing its input: should be 12 or less", ratio)
	}
}

// BenchmarkOpen measures the time from a path to the first bytes of the first request.
func BenchmarkOpen(b *testing.B) {
	o := options(b, benchInput(b)).withDefaults()
	r := o.convert(b)
	var p mmapcache.Prompt
	var body []byte
	for b.Loop() {
		c, err := mmapcache.Open(o.Root, r.Key)
		require.NoError(b, err)
		tree, err := c.Render(0, mmapcache.Text)
		require.NoError(b, err)
		tree.Prompt(0, &p)
		body = p.AppendContent(body[:0], 0)
		require.NoError(b, c.Close())
	}
}

// BenchmarkTree measures what a lane does before it replays a trace: every block gets its place in the corpus.
func BenchmarkTree(b *testing.B) {
	o := options(b, benchInput(b)).withDefaults()
	r := o.convert(b)
	c := openResult(b, o, r)
	for b.Loop() {
		for i := range c.Structure.Traces.Len() {
			_, err := c.Render(i, mmapcache.Text)
			require.NoError(b, err)
		}
	}
	elapsed := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.ReportMetric(elapsed/float64(c.Structure.Blocks()), "ns/block")
	b.ReportMetric(elapsed/1e6/float64(c.Structure.Traces.Len()), "ms/trace")
}

// BenchmarkPrompt measures what a turn does: it puts the content of all its messages together. The prompts have 90,000 to 110,000 tokens;
// the time is for 100,000. x-copy is the time beside that of one copy of as many bytes from memory that the caches do not hold.
func BenchmarkPrompt(b *testing.B) {
	corpora := Corpora()
	if extra := os.Getenv("BENCH_CORPUS"); extra != "" {
		corpora = append(corpora, extra)
	}
	for _, name := range corpora {
		o := options(b, benchInput(b)).withDefaults()
		o.Corpus, o.Tokenizer = name, DefaultTokenizer
		c := openResult(b, o, o.convert(b))
		for _, encoding := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
			b.Run(filepath.Base(name)+"/"+map[mmapcache.Encoding]string{mmapcache.Text: "text", mmapcache.IDs: "ids"}[encoding], func(b *testing.B) { benchPrompts(b, c, encoding) })
		}
	}
}

func benchPrompts(b *testing.B, c *mmapcache.Cache, encoding mmapcache.Encoding) {
	var trees []*mmapcache.RenderedTrace
	var turns []int
	var p mmapcache.Prompt
	for i := 0; i < c.Structure.Traces.Len() && len(turns) < 400; i++ {
		tree, err := c.Render(i, encoding)
		require.NoError(b, err)
		for k := range tree.Turns {
			if tree.Prompt(k, &p); p.Tokens >= 90_000 && p.Tokens <= 110_000 && len(turns) < 400 {
				trees, turns = append(trees, tree), append(turns, k)
			}
		}
	}
	if len(turns) == 0 {
		b.Skip("the traces have no prompt of 100,000 tokens")
	}
	var body []byte
	bytes, tokens, k := 0, 0, 0
	for b.Loop() {
		tree := trees[k%len(trees)]
		tree.Prompt(turns[k%len(turns)], &p)
		body = body[:0]
		for m := range p.Messages {
			body = p.AppendContent(body, m)
		}
		bytes, tokens, k = bytes+len(body), tokens+p.Tokens, k+1
	}
	perPrompt := float64(b.Elapsed().Nanoseconds()) / float64(tokens) * 100_000
	b.ReportMetric(perPrompt/1e6, "ms/100k-tokens")
	b.ReportMetric(float64(bytes)/float64(b.Elapsed().Nanoseconds()), "GB/s")
	b.ReportMetric(perPrompt/copyTime(float64(bytes)/float64(tokens)*100_000), "x-copy")
}

// copyTime returns the time of a copy of n bytes from memory that the caches do not hold, in nanoseconds.
func copyTime(n float64) float64 {
	from, to := make([]byte, 256<<20), make([]byte, int(n))
	for k := range from {
		from[k] = byte(k)
	}
	begin, copied := time.Now(), 0
	for at := 0; at+len(to) <= len(from); at += len(to) {
		copied += copy(to, from[at:])
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(copied) * n
}

// scanAll does the least that a build must do: it reads, decompresses and scans, with as many workers.
func scanAll(ctx context.Context, o Options) error {
	s, err := hfsource.Resolve(ctx, o.Inputs, o.Source)
	if err != nil {
		return err
	}
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	err = s.Rows(ctx, nil, nil, func(r hfsource.Row) error {
		group.SubmitErr(func() error {
			defer r.Free()
			_, err := weka.Scan(r.Data, o.Rules)
			return err
		})
		return nil
	})
	if waitErr := group.Wait(); err == nil {
		err = waitErr
	}
	return err
}

// BenchmarkBuild compares a build with scanAll in the same run. Both hash the input. The time of syncing (publish) is reported
// separately. The arenas, which are built once per tokenizer and corpus, exist before.
func BenchmarkBuild(b *testing.B) {
	for _, backend := range []string{rules.XXH3, rules.SHA256MT} {
		b.Run(backend, func(b *testing.B) {
			base := options(b, benchInput(b)).withDefaults()
			base.Placement.Backend = backend
			base.Workers, base.disk = 2, durable.Options{}
			base.convert(b)
			var floor, build, publish time.Duration
			for b.Loop() {
				begin := time.Now()
				require.NoError(b, scanAll(b.Context(), base))
				floor += time.Since(begin)
				o := withArenas(b, base)
				begin = time.Now()
				r := o.convert(b)
				build += time.Since(begin)
				publish += r.Stages["publish"]
			}
			b.ReportMetric(float64(build-publish)/float64(floor), "x-scanning")
			b.ReportMetric(floor.Seconds()*1000/float64(b.N), "scanning-ms")
			b.ReportMetric(publish.Seconds()*1000/float64(b.N), "publish-ms")
		})
	}
}

// benchForms writes the traces of the benchmarks as JSON lines, and as Parquet by two writers.
func benchForms(b *testing.B) map[string]string {
	rows, _ := benchRows(b)
	library := libraryParquet(b, rows, parquet.MaxRowsPerRowGroup(100))
	return map[string]string{
		"jsonl.zst": benchInput(b), "parquet-zstd": write(b, "zstd.parquet", library),
		"parquet-snappy": write(b, "snappy.parquet", rewritten(b, library, 100)),
	}
}

// BenchmarkRows compares reading rows, without scanning them, with reading the files.
func BenchmarkRows(b *testing.B) {
	for name, path := range benchForms(b) {
		b.Run(name, func(b *testing.B) {
			s, err := hfsource.Resolve(b.Context(), []string{path}, hfsource.Options{})
			require.NoError(b, err)
			defer s.Close()
			var bare, hashed time.Duration
			for b.Loop() {
				begin := time.Now()
				f, err := os.Open(path)
				require.NoError(b, err)
				_, err = io.Copy(struct{ io.Writer }{io.Discard}, f)
				require.NoError(b, err)
				require.NoError(b, f.Close())
				bare += time.Since(begin)
				begin = time.Now()
				require.NoError(b, s.Rows(b.Context(), weka.ColumnPaths(), nil, func(r hfsource.Row) error {
					r.Free()
					return r.Err
				}))
				hashed += time.Since(begin)
			}
			b.ReportMetric(bare.Seconds()*1000/float64(b.N), "bare-read-ms")
			b.ReportMetric(hashed.Seconds()*1000/float64(b.N), "rows-ms")
			b.ReportMetric(float64(s.Bytes())/1e6, "MB")
		})
	}
}

// BenchmarkPlanStage measures the plan stage, which reads, scans and plans, for each file format.
func BenchmarkPlanStage(b *testing.B) {
	for name, path := range benchForms(b) {
		b.Run(name, func(b *testing.B) {
			o := options(b, path).withDefaults()
			s, err := hfsource.Resolve(b.Context(), o.Inputs, o.Source)
			require.NoError(b, err)
			defer s.Close()
			for b.Loop() {
				_, _, err := planInputs(b.Context(), s, make([]int, len(s.Files)), o, bounds{})
				require.NoError(b, err)
			}
		})
	}
}
