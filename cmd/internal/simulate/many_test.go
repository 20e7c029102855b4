package simulate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// conversation is the public conversation trace, which is no part of the project.
const conversation = "../../../../shared/corpus/mooncake-conversation.jsonl.zst"

// inputOf returns the input of a file of rows.
func inputOf(t testing.TB, path string) *Input {
	root := t.TempDir()
	r, err := convert.Structure(context.Background(), convert.Options{Root: root, Inputs: []string{path}})
	require.NoError(t, err)
	c, err := mmapcache.OpenStructure(root, r.Key)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	in, err := NewInput(c)
	require.NoError(t, err)
	return in
}

// Runs that share an input give what each gives alone.
//
// Covers S-02.
func TestManyRunsOnOneInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	rows := ""
	for _, row := range []string{
		`{"timestamp":0,"input_length":700,"output_length":20,"hash_ids":[0,1]}`, `{"timestamp":5,"input_length":800,"output_length":30,"hash_ids":[0,1]}`,
		`{"timestamp":9,"input_length":600,"output_length":9,"hash_ids":[0,2],"session_id":"s"}`, `{"delay":40,"input_length":1500,"output_length":9,"hash_ids":[0,2,3],"session_id":"s"}`,
	} {
		rows += row + "\n"
	}
	require.NoError(t, os.WriteFile(path, []byte(rows), 0o666))
	in := inputOf(t, path)
	play := func(in *Input, block, workers int) *Summary {
		c := Default()
		c.Input, c.Workers, c.Engine.Config.BlockSize = in, workers, block
		r, err := Run(context.Background(), c)
		assert.NoError(t, err)
		return r.Summary()
	}
	got := make([]*Summary, 12)
	var all sync.WaitGroup
	for k := range got {
		all.Go(func() { got[k] = play(in, 16<<(k%3), 1+k/3) })
	}
	all.Wait()
	for k, s := range got {
		assert.Equal(t, play(inputOf(t, path), 16<<(k%3), 1+k/3), s)
	}
}

// BenchmarkManyRuns plays the conversation trace at 16 concurrencies, one after another and all at once: x-one is what the cores give, x-cpu
// what the runs cost one another in CPU seconds.
func BenchmarkManyRuns(b *testing.B) {
	if _, err := os.Stat(conversation); errors.Is(err, fs.ErrNotExist) {
		b.Skipf("%s is not here", conversation)
	}
	in := inputOf(b, conversation)
	play := func(places int) (wall, cpu time.Duration) {
		runtime.GC()
		used := measure.ReadProcessUsage().CPU
		free := make(chan struct{}, places)
		begin := time.Now()
		var all sync.WaitGroup
		for k := range 16 {
			free <- struct{}{}
			all.Go(func() {
				c := Default()
				c.Input, c.Workers, c.Concurrency, c.Engine.Config.BlockSize = in, 8, 4*(k+1), 512
				_, err := Run(context.Background(), c)
				assert.NoError(b, err)
				<-free
			})
		}
		all.Wait()
		return time.Since(begin), measure.ReadProcessUsage().CPU - used
	}
	play(1) // numbers the blocks
	for b.Loop() {
		one, oneCPU := play(1)
		many, manyCPU := play(runtime.GOMAXPROCS(0))
		b.ReportMetric(16*12_031/many.Seconds(), "requests/s")
		b.ReportMetric(one.Seconds()/many.Seconds(), "x-one")
		b.ReportMetric(manyCPU.Seconds()/oneCPU.Seconds(), "x-cpu")
	}
}
