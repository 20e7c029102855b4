//go:build nfs

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
)

// TestNFS tests a cache root on NFS, with a server and clients that have caches of their own. It boots a machine of
// user-mode Linux (testdata/nfs-init.sh) in which this test program runs TestNFSMachine. The scenarios of that are the
// subtests here. NFS_RUN chooses among them.
func TestNFS(t *testing.T) {
	for _, need := range []struct{ program, packages string }{
		{"linux.uml", "user-mode-linux"}, {"rpc.mountd", "nfs-kernel-server"}, {"exportfs", "nfs-kernel-server"}, {"mount.nfs4", "nfs-common"}, {"ip", "iproute2"},
	} {
		if _, err := exec.LookPath(need.program); err != nil {
			t.Skipf("%s is not installed (Debian package %s): this test wants user-mode-linux, nfs-kernel-server, nfs-common and iproute2", need.program, need.packages)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("it must be run as root: the kernel of the machine mounts as who runs it")
	}
	dir := t.TempDir()
	agentx, tests := filepath.Join(dir, "agentx"), filepath.Join(dir, "agentx.test")
	for _, args := range [][]string{{"build", "-o", agentx, "."}, {"test", "-c", "-tags", "nfs", "-o", tests, "."}} {
		build := exec.Command("go", args...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	script, err := filepath.Abs("testdata/nfs-init.sh")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	machine := exec.CommandContext(ctx, "linux.uml", "mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "loglevel=2",
		"con=null", "con0=null,fd:1", "con1=null", "init=/bin/sh",
		"NFS_TEST="+tests, "NFS_AGENTX="+agentx, "NFS_RUN="+os.Getenv("NFS_RUN"), "NFS_ROUNDS="+os.Getenv("NFS_ROUNDS"), "--", script)
	machine.Env = append(os.Environ(), "HOME="+dir) // for its socket
	machine.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	machine.Cancel = func() error { return syscall.Kill(-machine.Process.Pid, syscall.SIGKILL) }
	machine.WaitDelay = 10 * time.Second
	out, err := machine.StdoutPipe()
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, machine.Start())
	defer func() {
		_ = syscall.Kill(-machine.Process.Pid, syscall.SIGKILL) // with its children
		_ = machine.Wait()
	}()

	verdict := ""
	result := regexp.MustCompile(`^ +--- (PASS|FAIL|SKIP): TestNFSMachine/(\S+) `)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		fmt.Fprintln(t.Output(), line)
		if text, ok := strings.CutPrefix(line, "machine: "); ok {
			verdict = text
		}
		if m := result.FindStringSubmatch(line); m != nil {
			t.Run(m[2], func(t *testing.T) {
				switch m[1] {
				case "FAIL":
					t.Error("it failed in the machine: see above")
				case "SKIP":
					t.Skip("it was skipped in the machine: see above")
				}
			})
		}
	}
	t.Logf("from boot to halt: %.1f s", time.Since(begin).Seconds())
	switch {
	case ctx.Err() != nil:
		t.Error("the machine did not come to an end")
	case verdict != "exit 0":
		t.Errorf("the last word of the machine: %q", verdict)
	}
}

// TestNFSMachine runs inside the machine.
func TestNFSMachine(t *testing.T) {
	switch os.Getenv("NFS_STAGE") {
	case "modules":
		for _, name := range []string{"nfs", "nfsv4", "nfsd"} {
			require.NoError(t, loadModule(name))
		}
	case "scenarios":
		t.Run("ClientsAreTold", testNFSClientsAreTold)
		t.Run("BytesOnTheWire", testNFSBytesOnTheWire)
		t.Run("ReadOnlyMount", testNFSReadOnlyMount)
		t.Run("CachedAsMissing", testNFSCachedAsMissing)
		t.Run("OneBuildsOneWaits", testNFSOneBuildsOneWaits)
		t.Run("SlowBuilderIsWaitedFor", testNFSSlowBuilderIsWaitedFor)
		t.Run("KilledElsewhere", testNFSKilledElsewhere)
		t.Run("KilledHere", testNFSKilledHere)
		t.Run("BuildersOfShards", testNFSBuildersOfShards)
		t.Run("BuilderOfShardsKilled", testNFSBuilderOfShardsKilled)
		t.Run("StoppedTooLong", testNFSStoppedTooLong)
		t.Run("Fence", testNFSFence)
		t.Run("Repaired", testNFSRepaired)
		t.Run("ReadersSeeWholeEntries", testNFSReadersSeeWholeEntries)
	default:
		t.Skip("it runs in the machine that TestNFS boots")
	}
}

// loadModule is modprobe, which small systems do not have.
func loadModule(name string) error {
	lists, err := filepath.Glob("/usr/lib/uml/modules/*/modules.dep")
	if err != nil || len(lists) != 1 {
		return fmt.Errorf("%d lists of modules of user-mode Linux", len(lists))
	}
	list, err := os.ReadFile(lists[0])
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		file, needs, _ := strings.Cut(line, ":")
		if filepath.Base(file) != name+".ko" {
			continue
		}
		files := append([]string{file}, strings.Fields(needs)...)
		for _, file := range slices.Backward(files) { // a module stands before those that it needs
			image, err := os.ReadFile(filepath.Join(filepath.Dir(lists[0]), file))
			if err != nil {
				return err
			}
			parameters := []byte{0}
			_, _, errno := syscall.Syscall(syscall.SYS_INIT_MODULE, uintptr(unsafe.Pointer(&image[0])), uintptr(len(image)), uintptr(unsafe.Pointer(&parameters[0])))
			if errno != 0 && errno != syscall.EEXIST {
				return fmt.Errorf("module %s: %w", file, errno)
			}
		}
		return nil
	}
	return fmt.Errorf("there is no module %s", name)
}

// client is one mount of the export. Its processes have namespaces of process ids of their own, so that others take them
// for processes of another machine, unless it is local.
type client struct {
	mount string
	local bool
}

var (
	clientA  = client{mount: "/mnt/a"}
	clientB  = client{mount: "/mnt/b"}
	readOnly = client{mount: "/mnt/ro"}
	localA   = client{mount: "/mnt/a", local: true}
	localB   = client{mount: "/mnt/b", local: true}
)

// beat is the time between two heartbeats of a builder. Margin is how much longer than asserted a scenario may take: the
// machine is slow, and its host may be busy.
const (
	beat   = 5 * time.Second
	margin = 3 * time.Second
)

const export = "/mnt/export" // the directory that the server exports

// process is a running agentx.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	begin  time.Time
	stdout output
	stderr output
	wait   func() error
}

// output collects what a process writes, and can be read meanwhile.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs agentx with a cache root below the mount.
func (c client) start(t *testing.T, root string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	p := &process{t: t, begin: time.Now()}
	p.cmd = exec.CommandContext(ctx, os.Getenv("NFS_AGENTX"), append(args, "--cache", filepath.Join(c.mount, root))...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if !c.local {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	require.NoError(t, p.cmd.Start())
	p.wait = sync.OnceValue(p.cmd.Wait)
	t.Cleanup(func() {
		cancel()
		_ = p.wait()
	})
	return p
}

// end waits for the process and returns its exit status.
func (p *process) end() int {
	p.t.Helper()
	var exit *exec.ExitError
	if err := p.wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// run runs agentx, which must succeed, and returns its standard output.
func (c client) run(t *testing.T, root string, args ...string) string {
	t.Helper()
	p := c.start(t, root, args...)
	require.Zero(t, p.end(), "%s: %s", p.cmd, &p.stderr)
	return p.stdout.String()
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s), "%s: has it ended? %s", p.cmd, &p.stderr)
}

// eventually waits for a condition. It looks often enough to see a build while it runs.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come: %s", what)
		}
	}
}

// claims returns the claims on parts of a kind, as paths below the root, as the server has them.
func claims(root, kind string) (list []string) {
	entries, _ := os.ReadDir(filepath.Join(export, root, ".staging")) // none yet
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), kind+"-") {
			list = append(list, filepath.Join(".staging", e.Name()))
		}
	}
	return list
}

// catch waits until the process builds a part of a kind, stops it, and returns its claim.
func (p *process) catch(root, kind string) string {
	p.t.Helper()
	eventually(p.t, "a claim of "+kind, func() bool {
		beats, _ := filepath.Glob(filepath.Join(export, root, ".staging", kind+"-*", "*", "beat.*"))
		return len(beats) > 0
	})
	p.signal(syscall.SIGSTOP)
	list := claims(root, kind)
	require.Len(p.t, list, 1, "too fast to be caught")
	return list[0]
}

// waits waits until the process says that it waits for another one.
func (p *process) waits() {
	p.t.Helper()
	eventually(p.t, "it says that it waits", func() bool { return strings.Contains(p.stderr.String(), "agentx: waiting for ") })
}

// conversion is the JSON of convert.
type conversion struct {
	Key    string
	Hit    bool
	Turns  int
	Bytes  int64
	Wall   float64
	Stages map[string]float64
	Parts  map[string]struct{ Hit bool }
	Shards struct{ Total, Found int }
}

func (p *process) converted() (c conversion) {
	p.t.Helper()
	require.Zero(p.t, p.end(), "%s: %s", p.cmd, &p.stderr)
	require.NoError(p.t, json.Unmarshal([]byte(p.stdout.String()), &c))
	return c
}

// convert converts and waits.
func (c client) convert(t *testing.T, root string, args ...string) conversion {
	t.Helper()
	return c.start(t, root, append([]string{"convert", "--json"}, args...)...).converted()
}

// replay plays all of a cache against a mock server, and fails unless every turn was answered.
func (c client) replay(t *testing.T, root string, of conversion, args ...string) {
	t.Helper()
	server := exec.Command(os.Getenv("NFS_AGENTX"), "mock", "--listen", "127.0.0.1:0")
	first, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	defer func() {
		require.NoError(t, server.Process.Signal(os.Interrupt))
		require.NoError(t, server.Wait())
	}()
	line, err := bufio.NewReader(first).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	args = append([]string{"replay", of.Key, "--url", url, "--model", "m", "--once", "--asap", "--concurrency", "4", "--json", "--out", t.TempDir()}, args...)
	var summary struct {
		Requests, Completed int
		Errors              map[string]int
	}
	require.NoError(t, json.Unmarshal([]byte(c.run(t, root, args...)), &summary))
	assert.Equal(t, of.Turns, summary.Completed)
	assert.Equal(t, of.Turns, summary.Requests)
	assert.Empty(t, summary.Errors)
}

// counters count what a mount has done so far.
type counters struct {
	read  int64 // bytes that came from the server
	calls map[string]int64
}

// counters reads /proc/self/mountstats.
func (c client) counters(t *testing.T) counters {
	t.Helper()
	stats, err := os.ReadFile("/proc/self/mountstats")
	require.NoError(t, err)
	_, mine, ok := strings.Cut(string(stats), " mounted on "+c.mount+" ")
	require.True(t, ok)
	mine, _, _ = strings.Cut(mine, "\ndevice ")
	n := counters{calls: map[string]int64{}}
	for line := range strings.Lines(mine) {
		name, values, ok := strings.Cut(strings.TrimSpace(line), ":")
		fields := strings.Fields(values)
		if !ok || len(fields) == 0 {
			continue
		}
		if name == "bytes" { // by read, write; direct read, write; from the server, to the server; pages
			n.read, err = strconv.ParseInt(fields[4], 10, 64)
			require.NoError(t, err)
		} else if name == strings.ToUpper(name) {
			if v, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
				n.calls[name] = v
			}
		}
	}
	require.NotEmpty(t, n.calls)
	return n
}

// since returns the difference to earlier counters.
func (n counters) since(before counters) counters {
	d := counters{n.read - before.read, map[string]int64{}}
	for name, v := range n.calls {
		if v != before.calls[name] {
			d.calls[name] = v - before.calls[name]
		}
	}
	return d
}

// cold empties the caches of all clients.
func cold(t *testing.T) {
	t.Helper()
	syscall.Sync()
	require.NoError(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
}

// treeOf lists everything below a root on the server: names, permissions, sizes, times.
func treeOf(t *testing.T, path string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(export, path), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		list = append(list, fmt.Sprintf("%s %s %d %s", path, info.Mode(), info.Size(), info.ModTime()))
		return err
	}))
	return list
}

// The server tells the clients apart. Between two mounts that it takes for one client it would recall no delegations, and
// the other scenarios would only show that a client sees its own changes.
func testNFSClientsAreTold(t *testing.T) {
	infos, err := filepath.Glob("/proc/fs/nfsd/clients/*/info")
	require.NoError(t, err)
	var names []string
	for _, path := range infos {
		info, err := os.ReadFile(path)
		require.NoError(t, err)
		_, name, ok := strings.Cut(string(info), "\nname: ")
		require.True(t, ok, "%s", info)
		name, _, _ = strings.Cut(name, "\n")
		names = append(names, strings.Trim(name, `"`))
	}
	assert.ElementsMatch(t, []string{"Linux NFSv4.2 a", "Linux NFSv4.2 b", "Linux NFSv4.2 ro"}, names)
}

// A reader reads every byte of a cache from the server at most once, whatever it does with it, and takes no lock.
func testNFSBytesOnTheWire(t *testing.T) {
	made := clientA.convert(t, "wire", "demo")
	cold(t)
	begin := clientB.counters(t)
	clientB.replay(t, "wire", made)
	first := clientB.counters(t).since(begin)
	clientB.replay(t, "wire", made)
	again := clientB.counters(t).since(begin)
	clientB.replay(t, "wire", made, "--payload", "ids")
	clientB.run(t, "wire", "cache", "verify", made.Key)
	all := clientB.counters(t).since(begin)
	t.Logf("a cache of %d bytes: %d read by a first replay (%.1f %%), %d by a second, %d in all after one of token ids and a verification; calls %v",
		made.Bytes, first.read, 100*float64(first.read)/float64(made.Bytes), again.read-first.read, all.read, all.calls)
	assert.Positive(t, first.read)
	const notes = 4096 // bytes besides the cache: the record of its last use
	assert.InDelta(t, first.read, again.read, notes, "a second replay reads nothing")
	assert.InDelta(t, made.Bytes, all.read, notes, "all of it was read once")
	for _, name := range []string{"LOCK", "LOCKT", "LOCKU"} {
		assert.Zero(t, all.calls[name], name)
	}
}

// A read-only cache can be replayed, and stays as it is.
func testNFSReadOnlyMount(t *testing.T) {
	made := clientA.convert(t, "readonly", "demo")
	before := treeOf(t, "readonly")
	cold(t)
	begin := readOnly.counters(t)
	readOnly.replay(t, "readonly", made)
	readOnly.run(t, "readonly", "cache", "verify", made.Key)
	assert.True(t, readOnly.convert(t, "readonly", "demo").Hit)
	assert.Equal(t, before, treeOf(t, "readonly"))
	reading := []string{"OPEN", "OPEN_NOATTR", "CLOSE", "READ", "READ_PLUS", "READDIR", "LOOKUP", "ACCESS", "GETATTR", "DELEGRETURN", "SEQUENCE", "RENEW"}
	calls := readOnly.counters(t).since(begin).calls
	for name, n := range calls {
		assert.Contains(t, reading, name, "%d calls", n)
	}
	assert.Positive(t, calls["READ"])
}

// A client remembers for half a minute that a name was missing, unless it lists the directory. It must still find a cache
// that was published after it looked.
func testNFSCachedAsMissing(t *testing.T) {
	made := clientA.convert(t, "missing", "demo")
	var names []string
	require.NoError(t, fs.WalkDir(os.DirFS(filepath.Join(export, "missing")), ".", func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	path := func(c client, root string) string { return filepath.Join(c.mount, root, "dataset", made.Key) }
	soon := func(t *testing.T, root string, args ...string) *process {
		_, err := os.Stat(path(clientB, root))
		require.ErrorIs(t, err, fs.ErrNotExist, "this client remembers nothing: this shows nothing")
		p := clientB.start(t, root, args...)
		require.Zero(t, p.end(), "%s: %s", p.cmd, &p.stderr)
		assert.Less(t, time.Since(p.begin), margin)
		return p
	}
	for _, empty := range []bool{false, true} {
		for _, how := range []string{"convert", "info by key", "info by path"} {
			t.Run(fmt.Sprintf("%s, %s", how, map[bool]string{false: "no root", true: "an empty root"}[empty]), func(t *testing.T) {
				root := strings.NewReplacer("/", "-", ",", "").Replace(t.Name())
				for _, kind := range []string{"structure", "starts", "arenas", "dataset"} {
					if empty {
						require.NoError(t, os.MkdirAll(filepath.Join(clientB.mount, root, kind), 0o777))
					}
				}
				for _, name := range names {
					_, _ = os.Stat(filepath.Join(clientB.mount, root, name))
				}
				require.NoError(t, os.CopyFS(filepath.Join(clientA.mount, root), os.DirFS(filepath.Join(export, "missing"))))
				var p *process
				switch how {
				case "convert":
					p = soon(t, root, "convert", "demo", "--json")
					assert.True(t, p.converted().Hit)
				case "info by key":
					p = soon(t, root, "cache", "info", made.Key)
				case "info by path":
					p = soon(t, root, "cache", "info", path(clientB, root))
				}
				t.Logf("after %.2f s", time.Since(p.begin).Seconds())
			})
		}
	}
}

// sound requires that a root is whole for both clients, and that nothing is left in it but so many notes of use, of killed
// processes.
func sound(t *testing.T, root, key string, killed int) {
	t.Helper()
	clientA.run(t, root, "cache", "verify", key)
	clientB.run(t, root, "cache", "verify", key)
	belongs := regexp.MustCompile(`^(\.|\.staging|\.use|README\.txt|(structure|starts|arenas|dataset)(/[0-9a-f]{64}(/[a-z][a-z0-9.]*)?)?|\.use/[0-9a-f]{64}\.used)$`)
	note := regexp.MustCompile(`^\.use/[^/]*\.use$`)
	notes := 0
	var left []string
	require.NoError(t, fs.WalkDir(os.DirFS(filepath.Join(export, root)), ".", func(path string, _ fs.DirEntry, err error) error {
		if note.MatchString(path) {
			notes++
		} else if !belongs.MatchString(path) {
			left = append(left, path)
		}
		return err
	}))
	assert.Empty(t, left, "left behind")
	assert.LessOrEqual(t, notes, killed, "notes of use left behind")
}

// builtOnce requires that each part was built by one of two and found by the other.
func builtOnce(t *testing.T, a, b conversion) {
	t.Helper()
	for _, kind := range []string{"structure", "starts", "arenas"} {
		assert.NotEqual(t, a.Parts[kind].Hit, b.Parts[kind].Hit, "%s: found by both, or built by both", kind)
	}
	assert.Equal(t, a.Key, b.Key)
}

// Of two clients that want the same, one builds it; the other says that it waits, and then finds it.
func testNFSOneBuildsOneWaits(t *testing.T) {
	a := clientA.start(t, "wait", "convert", "demo", "--json")
	a.catch("wait", "arenas")
	b := clientB.start(t, "wait", "convert", "demo", "--json")
	b.waits()
	c := clientB.start(t, "wait", "convert", "demo", "--json", "--no-wait")
	assert.Equal(t, 1, c.end())
	assert.Contains(t, c.stderr.String(), "being made by another process")
	a.signal(syscall.SIGCONT)

	made := a.converted()
	ended := time.Now()
	found := b.converted()
	t.Logf("built in %.1f s; the other had it %.2f s later", made.Wall, time.Since(ended).Seconds())
	builtOnce(t, made, found)
	assert.True(t, found.Parts["arenas"].Hit)
	clientB.replay(t, "wait", found)
	sound(t, "wait", made.Key, 0)
}

// A client waits for a slow builder that is alive, for longer than for a dead one: heartbeats reach it in time.
func testNFSSlowBuilderIsWaitedFor(t *testing.T) {
	corpus := slowText(t)
	a := clientA.start(t, "slow", "convert", "demo", "--json", "--corpus", corpus)
	a.catch("slow", "arenas")
	b := clientB.start(t, "slow", "convert", "demo", "--json", "--corpus", corpus)
	b.waits()

	// The name of the beat changes with every one: when that was at the server, and when the other client first saw it.
	beatAt := func(mount string) string {
		for _, claim := range claims("slow", "arenas") {
			if beats, _ := filepath.Glob(filepath.Join(mount, "slow", claim, "*", "beat.*")); len(beats) > 0 {
				return filepath.Base(beats[0])
			}
		}
		return ""
	}
	last, slowest := beatAt(export), time.Duration(0)
	for range 5 { // each time it runs for one heartbeat
		time.Sleep(beat)
		a.signal(syscall.SIGCONT)
		var at time.Time
		eventually(t, "a heartbeat", func() bool {
			now := beatAt(export) // also none when the file is renamed while the directory is read
			at = time.Now()
			return now != "" && now != last || len(claims("slow", "arenas")) == 0
		})
		a.signal(syscall.SIGSTOP)
		require.NotEmpty(t, claims("slow", "arenas"), "too fast for this to show anything, or taken over: %s", &a.stderr)
		last = beatAt(export)
		eventually(t, "the heartbeat at the other client", func() bool { return beatAt(clientB.mount) == last })
		slowest = max(slowest, time.Since(at))
	}
	a.signal(syscall.SIGCONT)
	made := a.converted()
	found := b.converted()
	t.Logf("built in %.1f s, of which the other one has waited for %.1f; it sees a heartbeat after at most %.0f ms", made.Wall, found.Stages["wait"], float64(slowest)/1e6)
	assert.False(t, made.Parts["arenas"].Hit, "it was not waited for")
	assert.Greater(t, found.Stages["wait"], (4 * beat).Seconds())
	assert.Less(t, slowest, beat)
	builtOnce(t, made, found)
	sound(t, "slow", made.Key, 0)
}

// slowText writes a text that takes seconds to encode, because few of its words are tokens.
func slowText(t *testing.T) string {
	random, text := rand.New(rand.NewPCG(1, 2)), make([]byte, 10<<20)
	for k := range text {
		if text[k] = byte('a' + random.IntN(26)); random.IntN(6) == 0 {
			text[k] = ' '
		}
	}
	path := filepath.Join(t.TempDir(), "slow.txt")
	require.NoError(t, os.WriteFile(path, text, 0o666))
	return path
}

// When a client dies, another one takes over what it has begun, after three missing heartbeats.
func testNFSKilledElsewhere(t *testing.T) {
	a := clientA.start(t, "killed", "convert", "demo")
	a.catch("killed", "arenas")
	b := clientB.start(t, "killed", "convert", "demo", "--json")
	b.waits()
	a.signal(os.Kill)
	died := time.Now()
	assert.Equal(t, -1, a.end())
	made := b.converted()
	took := time.Since(died).Seconds()
	build := made.Wall - made.Stages["wait"]
	t.Logf("%.1f s after the death it was done, of which its own work took %.1f", took, build)
	assert.True(t, made.Parts["structure"].Hit, "it was there already")
	assert.False(t, made.Parts["arenas"].Hit)
	assert.Less(t, took, (3*beat+margin).Seconds()+build)
	assert.Greater(t, made.Stages["wait"], (2 * beat).Seconds(), "it was taken for dead too early")
	sound(t, "killed", made.Key, 1)
}

// manyFiles makes a corpus of files, of which each is a shard.
func manyFiles(t *testing.T, files int) string {
	t.Helper()
	dir := t.TempDir()
	for k := range files {
		synth := exec.Command(os.Getenv("NFS_AGENTX"), "synth", "--traces", "4", "--seed", strconv.Itoa(k), "--quiet", "--output", filepath.Join(dir, fmt.Sprintf("%d.jsonl", k)))
		out, err := synth.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return dir
}

// Two clients build one corpus of many files together: each file once, and one dataset, which both can play.
func testNFSBuildersOfShards(t *testing.T) {
	const files = 8
	dir := manyFiles(t, files)
	a := clientA.start(t, "shards", "convert", dir, "--json", "--part", "0/2")
	b := clientB.start(t, "shards", "convert", dir, "--json", "--part", "1/2")
	one, other := a.converted(), b.converted()
	t.Logf("of %d shards one built %d, the other %d", files, files-one.Shards.Found, files-other.Shards.Found)
	assert.Equal(t, one.Key, other.Key)
	assert.Equal(t, files, one.Shards.Total)
	assert.Equal(t, files, one.Shards.Found+other.Shards.Found, "each was built once")
	assert.Less(t, one.Shards.Found, files)
	assert.Less(t, other.Shards.Found, files)
	clientA.replay(t, "shards", one)
	clientB.replay(t, "shards", one)
	sound(t, "shards", one.Key, 0)
}

// When a builder dies, another one takes over the files that it had in hand, after three missing heartbeats.
func testNFSBuilderOfShardsKilled(t *testing.T) {
	const files = 4
	dir := manyFiles(t, files)
	a := clientA.start(t, "dead-shards", "convert", dir)
	a.catch("dead-shards", "shards")
	a.signal(os.Kill)
	assert.Equal(t, -1, a.end())
	made := clientB.convert(t, "dead-shards", dir)
	assert.Equal(t, files, made.Shards.Total)
	assert.Greater(t, made.Stages["wait"], (2 * beat).Seconds(), "it was taken for dead too early")
	sound(t, "dead-shards", made.Key, 1)
}

// A dead process of the same machine is not waited for, whenever it died.
func testNFSKilledHere(t *testing.T) {
	alone := localA.convert(t, "here", "demo")
	caught := map[string]int{}
	longest := 0.0
	const times = 4
	for n := range times {
		root := fmt.Sprintf("here-%d", n)
		a := localA.start(t, root, "convert", "demo")
		time.Sleep(time.Duration(alone.Wall * float64(n+1) / (times + 1) * float64(time.Second)))
		a.signal(os.Kill)
		a.end()
		at := "nothing"
		for _, kind := range []string{"structure", "starts", "arenas", "dataset"} {
			if len(claims(root, kind)) > 0 {
				at = kind
			}
		}
		caught[at]++
		made := localB.convert(t, root, "demo")
		longest = max(longest, made.Stages["wait"])
		sound(t, root, made.Key, 1)
	}
	t.Logf("killed while it held: %v; the next one waited for %.2f s at most", caught, longest)
	assert.NotEqual(t, times, caught["nothing"], "never caught in the act")
	assert.Less(t, longest, beat.Seconds())
}

// A builder that was stopped for so long that another one took over notices that when it goes on, and breaks nothing.
func testNFSStoppedTooLong(t *testing.T) {
	a := clientA.start(t, "stopped", "convert", "demo", "--json")
	a.catch("stopped", "arenas")
	b := clientB.start(t, "stopped", "convert", "demo", "--json")
	made := b.converted()
	assert.False(t, made.Parts["arenas"].Hit)
	before := treeOf(t, "stopped/arenas")
	a.signal(syscall.SIGCONT)
	found := a.converted()
	assert.True(t, found.Parts["arenas"].Hit)
	assert.Equal(t, made.Key, found.Key)
	assert.Equal(t, before, treeOf(t, "stopped/arenas"), "what the other one has made")
	t.Logf("it said: %s", strings.TrimSpace(a.stderr.String()))
	sound(t, "stopped", made.Key, 0)
}

// The fence: a process that has lost its lease cannot publish, although its client may still reach renamed directories by
// their handles for half a minute.
func testNFSFence(t *testing.T) {
	const root, name = "lease", "arenas/key"
	var silent atomic.Bool
	opts := durable.Options{Heartbeat: 300 * time.Millisecond, Step: func(step, _ string) error {
		if step == "beat" && silent.Load() {
			return errors.New("this one is slow")
		}
		return nil
	}}
	acquire := func(c client, opts durable.Options) (*durable.Lease, error) {
		return durable.Acquire(durable.WithOptions(t.Context(), opts), filepath.Join(c.mount, root), "arenas-key", func() (bool, error) { return false, nil }, durable.Waiting{})
	}
	a, err := acquire(clientA, opts)
	require.NoError(t, err)
	opts.Lease = a
	d, err := durable.NewDir(filepath.Join(clientA.mount, root), opts)
	require.NoError(t, err)
	for _, file := range []string{"first", "second", "third"} {
		require.NoError(t, d.Write(file, []byte(file)))
	}

	silent.Store(true)
	b, err := acquire(clientB, durable.Options{Heartbeat: opts.Heartbeat})
	require.NoError(t, err)
	silent.Store(false)
	_, err = d.Publish(name)
	t.Logf("the first one publishes: %v", err)
	require.ErrorIs(t, err, durable.ErrLost)
	require.NoFileExists(t, filepath.Join(export, root, name, "first"))
	assert.NoDirExists(t, filepath.Join(export, root, name))
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
}

// A client that has seen damage sees the repaired cache at once, and not only when its memory of the old directory expires.
func testNFSRepaired(t *testing.T) {
	verify := func(t *testing.T, root string, made conversion) { clientB.run(t, root, "cache", "verify", made.Key) }
	replay := func(t *testing.T, root string, made conversion) { clientB.replay(t, root, made) }
	for _, c := range []struct {
		root, file string
		read       func(t *testing.T, root string, made conversion)
	}{
		{"verify-manifest", "manifest.json", verify}, {"verify-file", "starts.bin", verify},
		{"replay-manifest", "manifest.json", replay}, {"replay-file", "starts.bin", replay},
	} {
		t.Run(c.root, func(t *testing.T) {
			t.Parallel() // most of it waits for the minute for which a missing file is looked for
			made := clientA.convert(t, c.root, "demo")
			verify(t, c.root, made)
			files, err := filepath.Glob(filepath.Join(clientA.mount, c.root, "starts", "*", c.file))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Remove(files[0]))
			p := clientB.start(t, c.root, "cache", "verify", made.Key)
			require.Equal(t, exitVerdict, p.end(), "%s%s", &p.stdout, &p.stderr)
			assert.Contains(t, p.stderr.String(), c.file)

			again := clientA.convert(t, c.root, "demo")
			require.Equal(t, made.Key, again.Key)
			require.False(t, again.Parts["starts"].Hit)
			c.read(t, c.root, made)
			sound(t, c.root, made.Key, 0)
		})
	}
}

// Whatever a reader finds in the list of caches is whole, or gone when it looks, whatever verb it reads with. Now and then it
// builds the cache again itself.
func testNFSReadersSeeWholeEntries(t *testing.T) {
	const root = "churn"
	corpus, err := filepath.Abs("small.u32le")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(corpus, smallCorpus(), 0o600))
	convert := []string{"convert", "demo", "--corpus", corpus}
	key := clientA.convert(t, root, convert[1:]...).Key

	stop, done := make(chan struct{}), make(chan struct{})
	var removed, refused atomic.Int32
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			p := clientA.start(t, root, "cache", "rm", key)
			switch status := p.end(); {
			case status == 0:
				removed.Add(1)
			case status == 1 && (strings.Contains(p.stderr.String(), "in use") || strings.Contains(p.stderr.String(), "no such")):
				refused.Add(1)
			default:
				assert.Fail(t, "cannot be removed", "exit %d: %s", status, &p.stderr)
			}
			p = clientA.start(t, root, convert...)
			assert.Zero(t, p.end(), "%s", &p.stderr)
		}
	}()
	type reader struct {
		verb string
		args []string
	}
	readers := []reader{
		{"verify", []string{"cache", "verify", key}},
		{"inspect", []string{"inspect", key, "--digest"}},
		{"info", []string{"cache", "info", key}},
		{"ls", []string{"cache", "ls", "--json"}},
		{"pull", []string{"cache", "pull", key, "--from", filepath.Join(clientB.mount, root)}},
		{"convert", convert},
	}
	read := func(r reader) *process {
		into := root
		if r.verb == "pull" {
			into = "pulled"
		}
		p := clientB.start(t, into, r.args...)
		p.end()
		require.NoError(t, os.RemoveAll(filepath.Join(export, "pulled")))
		return p
	}
	said := map[string]int{}
	enough, _ := strconv.Atoi(os.Getenv("NFS_ROUNDS"))
	enough = max(enough, 8)
	for end := time.Now().Add(9 * time.Minute); time.Now().Before(end) && (said["ls 0"] < enough || int(removed.Load()) < enough); {
		for _, r := range readers {
			p := read(r)
			status := p.end()
			said[fmt.Sprintf("%s %d", r.verb, status)]++
			gone := status == 1 && (strings.Contains(p.stderr.String(), "no such") || strings.Contains(p.stderr.String(), "neither a prepared cache"))
			if status != 0 && !gone || strings.Contains(p.stdout.String()+p.stderr.String(), "damaged") {
				assert.Fail(t, "neither whole nor gone", "%s exit %d: %s%s", r.verb, status, &p.stderr, &p.stdout)
			}
		}
	}
	close(stop)
	<-done
	t.Logf("removed %d times, and %d times refused, made again as often; a reader found: %v", removed.Load(), refused.Load(), said)
	assert.GreaterOrEqual(t, int(removed.Load()), enough)
	for _, r := range readers { // nothing is removed any more: the caches exist
		p := read(r)
		assert.Zero(t, p.end(), "%s: %s", r.verb, &p.stderr)
	}
	sound(t, root, clientB.convert(t, root, convert[1:]...).Key, 0)
}
