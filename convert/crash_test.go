package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// childVariable is the environment variable that makes a process of this test binary convert. It holds a child as JSON.
const childVariable = "AGENTX_TEST_CONVERT"

// child says what a conversion in another process does.
type child struct {
	Root, Input, Corpus string
	Force               bool

	Builder   Builder
	ShardRows int
	Log       string // a file to which it appends the names that it is about to publish; "": none
	DieAt     int    // step of the disk before which it kills itself; 0: none
}

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(childVariable); ok {
		var c child
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			err = c.run()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func (c child) run() error {
	o := plainOptions(c.Root, c.Corpus, c.Input)
	o.Force, o.Builder, o.shardRows, o.disk = c.Force, c.Builder, c.ShardRows, durable.Options{} // everything is synced
	if c.Log != "" {
		o.disk.Step, o.disk.Sync = c.step(), func(*os.File) error { return nil } // a kill loses nothing that was written
	}
	r, err := Convert(context.Background(), o)
	if err == nil {
		fmt.Println(r.Path)
	}
	return err
}

// step returns a function that logs what is about to be published, and kills the process at its step.
func (c child) step() func(name, path string) error {
	var mu sync.Mutex
	steps := 0
	return func(name, path string) error {
		mu.Lock()
		defer mu.Unlock()
		if name == "rename" && !strings.Contains(path, durable.StagingDir) {
			f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
			if err == nil {
				_, err = fmt.Fprintln(f, path)
			}
			if err := errors.Join(err, f.Close()); err != nil {
				return err
			}
		}
		if steps++; steps == c.DieAt {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			return errors.Join(err, errors.New("still alive"))
		}
		return nil
	}
}

// command returns a process that converts.
func (c child) command(t *testing.T) *exec.Cmd {
	text, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	return cmd
}

// requireWhole checks a root after a killed or failed conversion: every directory is complete, and every dataset verifies.
func requireWhole(t *testing.T, root string) {
	t.Helper()
	list, err := cachestore.List(root)
	require.NoError(t, err)
	for _, e := range list {
		require.Empty(t, e.Damaged)
		m, err := mmapcache.Lookup(root, e.Kind, e.Key)
		require.NoError(t, err)
		require.NotNil(t, m)
		if e.Kind == mmapcache.DatasetKind {
			v, err := mmapcache.Verify(t.Context(), root, e.Key)
			require.NoError(t, err)
			require.Empty(t, v.Damages)
		}
	}
}

// A process is killed with -9 at hundreds of random instants, while it builds into an empty root, rebuilds, or replaces damaged
// parts. Each time all published directories are complete, the next conversion does not wait and gives the same bytes, and
// a sweep leaves nothing.
func TestLongKilledAtRandomInstants(t *testing.T) {
	long(t)
	c := child{Root: filepath.Join(t.TempDir(), "root"), Input: lines(t, demoLines()...), Corpus: tinyCorpus(t, 300)}
	begin := time.Now()
	require.NoError(t, c.command(t).Run())
	whole := time.Since(begin)
	want := filesOf(t, c.Root)
	random := rand.New(rand.NewPCG(1, 2))
	killed, finished, left, byStep := 0, 0, 0, map[string]int{}
	names := slices.Sorted(maps.Keys(want))
	for k := range 300 {
		spoilt := ""
		switch c.Force = false; k % 3 {
		case 0:
			require.NoError(t, os.RemoveAll(c.Root))
		case 1:
			c.Force = true
		case 2:
			spoilt = names[random.IntN(len(names))]
			require.NoError(t, os.Truncate(filepath.Join(c.Root, spoilt), 1))
		}
		cmd := c.command(t)
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(random.Int64N(int64(whole) * 5 / 4)))
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err != nil {
			killed++
		} else {
			finished++
		}
		state := "over what was there"
		if k%3 == 0 {
			state = "from nothing:"
			requireWhole(t, c.Root)
		}
		for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
			if entries, err := os.ReadDir(filepath.Join(c.Root, kind)); err == nil && len(entries) > 0 && k%3 == 0 {
				state += " " + kind
			}
		}
		byStep[state]++
		for name, data := range want { // whole, or gone with its directory, or not mended yet
			got, err := os.ReadFile(filepath.Join(c.Root, name))
			if err != nil {
				_, err = os.Stat(filepath.Dir(filepath.Join(c.Root, name)))
				require.ErrorIs(t, err, os.ErrNotExist, name)
			} else if name != spoilt || len(got) > 1 {
				require.Equal(t, data, string(got), name)
			}
		}
		entries, err := os.ReadDir(filepath.Join(c.Root, durable.StagingDir))
		if err == nil {
			left += len(entries)
		}
		c.Force = false
		require.NoError(t, c.command(t).Run())
		require.Equal(t, want, filesOf(t, c.Root))
		now, err := durable.FilesystemTime(c.Root)
		require.NoError(t, err)
		_, err = durable.Sweep(c.Root, now, false)
		require.NoError(t, err)
		entries, err = os.ReadDir(filepath.Join(c.Root, durable.StagingDir))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	t.Logf("%d killed, %d had finished, in %s each; %d leftovers in staging; what was there afterwards:%v", killed, finished, whole, left, byStep)
	assert.Greater(t, killed, 100)
	assert.Greater(t, left, 20)
}

// Seven processes build one corpus, each until it kills itself with -9 at a random step. When four are dead, an eighth joins those that are
// left, and ends with the same dataset, in which every shard was built, and none twice but by one that was killed before it was published.
//
// Covers D-5.
func TestBuildersThatAreKilled(t *testing.T) {
	seconds(t)
	dir, rows := t.TempDir(), manyRows(80)
	for k := range 16 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%02d.jsonl", k)), []byte(strings.Join(rows[5*k:5*k+5], "\n")), 0o666))
	}
	corpus, random, dead := tinyCorpus(t, 300), rand.New(rand.NewPCG(3, 4)), 0
	want := options(t, dir)
	want.shardRows = 3
	whole := want.convert(t)
	for range 2 {
		root, logs, ends := filepath.Join(t.TempDir(), "root"), t.TempDir(), make(chan ended, 8)
		start := func(k, dieAt int) {
			c := child{Root: root, Input: dir, Corpus: corpus, Builder: Builder{k, 8}, ShardRows: 3, Log: filepath.Join(logs, fmt.Sprint(k)), DieAt: dieAt}
			cmd, output := c.command(t), new(strings.Builder)
			cmd.Stdout = output
			require.NoError(t, cmd.Start())
			go func() { // at once: a dead child that its parent has not noticed still counts as a process
				err := cmd.Wait()
				ends <- ended{k, output.String(), err}
			}()
		}
		for k := 1; k < 8; k++ {
			start(k, 1+random.IntN(180)) // one builder alone takes 1,331 steps, so that seven of 180 cannot finish
		}
		published := map[string]int{}
		for n := range 8 {
			if n == 4 {
				start(0, 0)
			}
			end := <-ends
			require.False(t, end.builder == 0 && end.err != nil, "the last is not killed: %v", end.err)
			require.False(t, n < 4 && end.err == nil, "%d finished alone", end.builder)
			data, _ := os.ReadFile(filepath.Join(logs, fmt.Sprint(end.builder)))
			names := strings.Fields(string(data))
			if end.err != nil {
				dead++
				names = names[:max(0, len(names)-1)] // perhaps not any more
			} else {
				assert.Contains(t, end.output, whole.Key)
			}
			for _, name := range names {
				published[name]++
			}
		}
		for name, n := range published {
			assert.Equal(t, 1, n, name)
		}
		requireWhole(t, root)
		assert.Equal(t, filesOf(t, want.Root), filesOf(t, root))
	}
	t.Logf("%d of 14 were killed", dead)
}

// ended is a builder that is no more: what it printed, and how it ended.
type ended struct {
	builder int
	output  string
	err     error
}

// Building the 600 traces takes no more anonymous memory than the target.
//
// Covers F15.
func TestLongMemoryIsBounded(t *testing.T) {
	long(t)
	c := child{Root: filepath.Join(t.TempDir(), "root"), Input: shared(t, "corpus/weka-v8-600.jsonl.zst"), Corpus: "code"}
	cmd := c.command(t)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	peak := 0
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		select {
		case err := <-done:
			require.NoError(t, err)
			t.Logf("peak of anonymous memory: %d MB", peak/1000)
			assert.Greater(t, peak, 10_000)
			assert.Less(t, peak, 200_000)
			return
		default:
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			continue
		}
		if _, rest, ok := strings.Cut(string(status), "RssAnon:"); ok {
			var kib int
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				peak = max(peak, kib*1024/1000)
			}
		}
	}
}
