package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/bytefmt"
)

// Of a day.
const (
	dayClients  = 200
	dayLife     = time.Minute // after which a capture is killed
	dayIdle     = "20s"       // after which the capture ends an idle session
	dayGrowth   = 1.3         // by which captures of the last third may be larger than those of the first
	dayLarger   = 32 << 20    // bytes, besides
	dayUnheard  = 2 * time.Second
	dayCanaries = 8 // of dayClients, whose digests are looked for
)

// TestCaptureDay runs a capture for AGENTX_CAPTURE_DAY, such as 1h, between 200 clients and a server that fails in every way the mock
// knows. Every minute the capture is killed and another one starts in the same directory, which finishes the journals that were left beside
// the traffic. What clients get is what the server sent; every request is counted; nothing that clients said is on disk; memory does not
// grow.
// make test-capture-day runs it.
//
// Covers C-35, C-38.
func TestCaptureDay(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("AGENTX_CAPTURE_DAY"))
	if err != nil {
		t.Skip("AGENTX_CAPTURE_DAY is no duration: make test-capture-day sets it")
	}
	d := newDay(t)
	d.learn()
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	d.start()
	var clients sync.WaitGroup
	for n := range dayClients {
		clients.Go(func() { d.client(n).work(ctx) })
	}
	for ctx.Err() == nil {
		over := time.After(dayLife)
		d.requireSameBytes()
		select {
		case <-ctx.Done():
		case <-over:
			d.kill()
			d.start()
		}
	}
	clients.Wait()
	d.settle()
	d.stop()
	d.requireCounted()
	d.requireFlat()
	d.requireChecked()
	d.requireSilent()
	for _, u := range d.unexplained {
		t.Error(u)
	}
	t.Logf("%d lives, %d requests, %d not as the server sent them (%d of them killed with their capture)", len(d.lives), d.asked.Load(), d.broken.Load(), d.killed.Load())
}

// day is a capture that is killed again and again, between a server and clients.
type day struct {
	t        *testing.T
	dir      string
	upstream *dayUpstream
	server   *httptest.Server
	address  string // of the capture
	expected map[dayCase]dayResult

	era  atomic.Int64 // odd while a capture runs
	live *dayLifetime
	all  sync.WaitGroup

	asked, broken, killed atomic.Int64

	counted map[string]bool // notes whose requests a life has

	mu          sync.Mutex
	lives       []*dayLifetime
	unexplained []string
}

// dayLifetime is one process.
type dayLifetime struct {
	era     int64
	cmd     *exec.Cmd
	admin   string
	out     strings.Builder // what follows the first lines
	read    chan struct{}   // closed at the end of its output
	stop    chan struct{}
	sizes   []int64 // bytes of memory, now and then
	scraped string
	asked   atomic.Int64 // requests that clients sent
	ended   time.Time    // when it was killed
	notes   int          // requests in notes that came of it
	summary *capture.Summary
}

func newDay(t *testing.T) *day {
	d := &day{t: t, dir: filepath.Join(t.TempDir(), "captured"), upstream: newDayUpstream(), expected: map[dayCase]dayResult{}, counted: map[string]bool{}}
	d.server = httptest.NewServer(d.upstream)
	t.Cleanup(d.server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.address = l.Addr().String()
	require.NoError(t, l.Close())
	return d
}

// start starts a capture and waits until it listens.
func (d *day) start() {
	life := &dayLifetime{era: d.era.Load() + 1, read: make(chan struct{}), stop: make(chan struct{})}
	life.cmd = exec.Command("agentx", "capture", "--upstream", d.server.URL, "--out", d.dir, "--listen", d.address, "--idle", dayIdle, "--json")
	log, err := os.Create(filepath.Join(d.t.TempDir(), "stderr"))
	require.NoError(d.t, err)
	life.cmd.Stderr = log
	stdout, err := life.cmd.StdoutPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, life.cmd.Start())
	d.t.Cleanup(func() {
		_ = life.cmd.Process.Signal(syscall.SIGQUIT) // it prints what it does
		_ = life.cmd.Wait()
		if text, err := os.ReadFile(log.Name()); d.t.Failed() && life == d.live {
			d.t.Logf("what the last one said (%v):\n%s", err, text[max(0, len(text)-1<<16):])
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "admin "); ok {
			life.admin = url
			break
		}
	}
	text, _ := os.ReadFile(log.Name())
	require.NotEmpty(d.t, life.admin, "the capture did not start:\n%s", text)
	go func() {
		defer close(life.read)
		for lines.Scan() {
			life.out.WriteString(lines.Text() + "\n")
		}
	}()
	d.live = life
	d.mu.Lock()
	d.lives = append(d.lives, life)
	d.mu.Unlock()
	d.all.Go(life.watch)
	d.era.Add(1)
}

// watch measures a process until it ends, and asks for its metrics.
func (l *dayLifetime) watch() {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(2 * time.Second):
		}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", l.cmd.Process.Pid)); err == nil {
			pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
			l.sizes = append(l.sizes, pages*int64(os.Getpagesize()))
		}
		if text := l.ask("/metrics"); text != "" {
			l.scraped = text
		}
	}
}

// ask returns what the admin listener answers.
func (l *dayLifetime) ask(path string) string {
	resp, err := http.Get(l.admin + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text := new(strings.Builder)
	_, _ = bufio.NewReader(resp.Body).WriteTo(text)
	return text.String()
}

// kill kills the capture, and copies what it leaves.
func (d *day) kill() {
	d.era.Add(1)
	d.live.ended = time.Now()
	require.NoError(d.t, d.live.cmd.Process.Kill())
	_ = d.live.cmd.Wait()
	close(d.live.stop)
	apart := d.apart()
	require.NoError(d.t, os.RemoveAll(apart))
	require.NoError(d.t, os.CopyFS(filepath.Join(apart, "journal"), os.DirFS(filepath.Join(d.dir, "journal"))))
	d.live.notes = d.noted(d.dir)
}

func (d *day) apart() string { return filepath.Join(filepath.Dir(d.dir), "apart") }

// requireSameBytes finishes the copy of what the last capture left, and compares what the next one makes of that.
func (d *day) requireSameBytes() {
	if len(d.lives) < 2 {
		return
	}
	out, err := exec.Command("agentx", "capture", "finish", d.apart()).CombinedOutput()
	require.NoError(d.t, err, string(out))
	d.lives[len(d.lives)-2].notes += d.noted(d.apart())
	made, err := filepath.Glob(filepath.Join(d.apart(), journal.NotesDir, "*.json"))
	require.NoError(d.t, err)
	for _, note := range made {
		left := filepath.Join(d.dir, "journal", strings.TrimSuffix(filepath.Base(note), ".json")+".jnl")
		require.Eventually(d.t, func() bool { _, err := os.Stat(left); return err != nil }, 5*time.Minute, 10*time.Millisecond, left)
	}
	for _, sub := range []string{journal.TracesDir, journal.NotesDir} {
		list, err := filepath.Glob(filepath.Join(d.apart(), sub, "*"))
		require.NoError(d.t, err)
		for _, path := range list {
			want, err := os.ReadFile(path)
			require.NoError(d.t, err)
			got, err := os.ReadFile(filepath.Join(d.dir, sub, filepath.Base(path)))
			require.NoError(d.t, err)
			assert.Equal(d.t, string(want), string(got), path)
		}
	}
}

// settle waits until the capture has nothing to do.
func (d *day) settle() {
	idle := []string{"agentx_capture_inflight 0", "agentx_capture_copy_bytes 0", "agentx_capture_queue_bytes 0"}
	require.Eventually(d.t, func() bool {
		text := d.live.ask("/metrics")
		for _, line := range idle {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond, "it still has something to do")
}

// stop ends the last capture as its user would.
func (d *day) stop() {
	require.NoError(d.t, d.live.cmd.Process.Signal(syscall.SIGTERM))
	<-d.live.read
	require.NoError(d.t, d.live.cmd.Wait())
	close(d.live.stop)
	d.all.Wait()
	d.live.summary = &capture.Summary{}
	require.NoError(d.t, json.Unmarshal([]byte(d.live.out.String()), d.live.summary), d.live.out.String())
	d.live.notes = d.noted(d.dir)
	d.t.Logf("the last one: %s", d.live.out.String())
	rest, err := filepath.Glob(filepath.Join(d.dir, "journal", "*"))
	require.NoError(d.t, err)
	assert.Empty(d.t, rest, "journals are left")
}

// noted returns how many requests the notes of a directory have that no life has yet.
func (d *day) noted(dir string) (n int) {
	list, err := filepath.Glob(filepath.Join(dir, journal.NotesDir, "*.json"))
	require.NoError(d.t, err)
	for _, path := range list {
		if d.counted[filepath.Base(path)] {
			continue
		}
		d.counted[filepath.Base(path)] = true
		text, err := os.ReadFile(path)
		require.NoError(d.t, err)
		var note struct {
			Requests, Recorded int
			NotRecorded        []struct{ Q int } `json:"not_recorded"`
		}
		require.NoError(d.t, json.Unmarshal(text, &note), path)
		assert.Equal(d.t, note.Requests, note.Recorded+len(note.NotRecorded), path)
		n += note.Requests
	}
	return n
}

// requireCounted compares the requests in notes with those that the server got and those that clients sent. A capture that was killed
// may lack those that it had not heard the end of.
func (d *day) requireCounted() {
	for k, life := range d.lives {
		served, unheard := d.upstream.served(life.era, life.ended)
		d.t.Logf("life %d: %d requests asked, %d served that are recorded, %d of them at its end; %d in notes; memory up to %s",
			k, life.asked.Load(), served, unheard, life.notes, bytefmt.Format(life.largest()))
		assert.GreaterOrEqual(d.t, life.notes, served-unheard, "life %d", k)
		assert.LessOrEqual(d.t, int64(life.notes), life.asked.Load(), "life %d", k)
	}
	s := d.lives[len(d.lives)-1].summary
	left := 0
	for _, n := range s.NotRecorded {
		left += n
	}
	assert.Equal(d.t, s.Requests, s.Recorded+left, "%+v", s)
}

func (l *dayLifetime) largest() (size int64) {
	for _, s := range l.sizes {
		size = max(size, s)
	}
	return size
}

// requireFlat compares the memory of the first captures with that of the last ones, which find more files.
func (d *day) requireFlat() {
	third := len(d.lives) / 3
	if third == 0 {
		return
	}
	mean := func(lives []*dayLifetime) (sum float64) {
		for _, l := range lives {
			sum += float64(l.largest()) / float64(len(lives))
		}
		return sum
	}
	whole := d.lives[:len(d.lives)-1] // the last one may be short
	assert.Less(d.t, mean(whole[len(whole)-third:]), dayGrowth*mean(whole[:third])+dayLarger)
}

// requireChecked checks every trace.
func (d *day) requireChecked() {
	out, err := exec.Command("agentx", "capture", "check", d.dir).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.NoError(d.t, err, strings.Join(lines[:min(len(lines), 30)], "\n"))
	d.t.Log(lines[len(lines)-1])
	bad, err := filepath.Glob(filepath.Join(d.dir, "*", "*.bad"))
	require.NoError(d.t, err)
	assert.Empty(d.t, bad)
}

// requireSilent looks for what clients said in everything that captures wrote.
func (d *day) requireSilent() {
	texts := map[string]string{}
	for _, dir := range []string{d.dir, d.apart()} {
		require.NoError(d.t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var text []byte
				text, err = os.ReadFile(path)
				texts[path] = path + "\n" + string(text)
			}
			return err
		}))
	}
	for k, life := range d.lives {
		text, err := os.ReadFile(life.cmd.Stderr.(*os.File).Name())
		require.NoError(d.t, err)
		texts[fmt.Sprintf("log %d", k)] = string(text)
		texts[fmt.Sprintf("metrics %d", k)] = life.scraped
		texts[fmt.Sprintf("stdout %d", k)] = life.out.String()
	}
	said := daySaid()
	for where, text := range texts {
		for what, secret := range said {
			assert.NotContains(d.t, strings.ToLower(text), strings.ToLower(secret), "%s in %s", what, where)
		}
	}
	d.t.Logf("%d files without a word of the clients", len(texts))
}
