package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	textcorpus "github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/fakehub"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mock"
)

func TestMain(m *testing.M) {
	for _, entry := range os.Environ() { // those of tests
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AGENTX_") {
			ownVariables = append(ownVariables, name)
		}
	}
	testscript.Main(cleaned{m}, map[string]func(){"agentx": main})
}

// cleaned runs the tests, and removes the cache root that they share.
type cleaned struct{ *testing.M }

func (c cleaned) Run() int {
	defer func() { os.RemoveAll(preparedRoot) }()
	return c.M.Run()
}

// prepareOnce makes a cache root with the demo, whose arenas take a second to make, once: preparedRoot.
var (
	preparedRoot string
	prepareOnce  = sync.OnceValue(func() (err error) {
		if preparedRoot, err = os.MkdirTemp("", "agentx-test"); err == nil && run([]string{"convert", "demo", "--quiet", "--cache", preparedRoot}, nil, new(strings.Builder), os.Stderr) != 0 {
			err = errors.New("the demo cannot be converted")
		}
		return err
	})
)

// arenasIn makes a cache root that holds only the arenas of the built-in corpus.
func arenasIn(root string) error {
	if err := prepareOnce(); err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(root, "arenas"), os.DirFS(filepath.Join(preparedRoot, "arenas")))
}

// warmRoot returns such a cache root.
func warmRoot(t *testing.T) string {
	root := t.TempDir()
	require.NoError(t, arenasIn(root))
	return root
}

// TestScripts runs the scripts of testdata, each in a directory of its own, with this program on the path and a cache
// root, $AGENTX_CACHE, that holds only the arenas of the built-in corpus.
func TestScripts(t *testing.T) {
	hangUps := make(chan os.Signal, 1) // programs of the scripts must not inherit that HUP is ignored, as under nohup
	signal.Notify(hangUps, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangUps) })
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Setenv("AGENTX_CACHE", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("AGENTX_NO_CALIBRATE", "true") // two seconds of each replay
			e.Setenv("GOGC", "400")                 // programs that live for milliseconds
			e.Setenv("AGENTX_SCRAPE", "off")        // two seconds at the end of each replay
			e.Values["servers"] = &scriptServers{}
			return arenasIn(filepath.Join(e.WorkDir, "cache"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "line": line, "keys": keys, "datasets": datasets, "damage": damage, "readonly": readonly, "tree": tree,
			"server": server, "arrived": arrived, "asked": asked, "serving": serving, "count": count, "corpus": corpus, "hub": hubs, "model": model, "tokenizers": tokenizers,
			"instants": instants, "freeport": freeport, "prepared": preparedDemo,
		},
	})
}

// preparedDemo puts the converted demo into the cache root, for scripts whose subject is not its conversion.
func preparedDemo(ts *testscript.TestScript, neg bool, args []string) {
	parts, err := os.ReadDir(preparedRoot)
	ts.Check(err)
	for _, part := range parts {
		if part.IsDir() && part.Name() != "arenas" { // which are there
			ts.Check(os.CopyFS(filepath.Join(ts.Getenv("AGENTX_CACHE"), part.Name()), os.DirFS(filepath.Join(preparedRoot, part.Name()))))
		}
	}
}

// exits STATUS PROGRAM ARGS... runs a program that ends with the given status, or one of several with bars between.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGS...")
	}
	status := 0
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(status)) {
		ts.Fatalf("exit status %d, want %s\n%s", status, args[0], ts.ReadFile("stderr"))
	}
}

// line NAME sets a variable to the last line of standard output.
func line(ts *testscript.TestScript, neg bool, args []string) {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	ts.Setenv(args[0], lines[len(lines)-1])
}

// keys KEY... checks that standard output is one JSON object on one line that has these keys, a.b for b inside a.
func keys(ts *testscript.TestScript, neg bool, args []string) {
	out := ts.ReadFile("stdout")
	var object map[string]any
	ts.Check(json.Unmarshal([]byte(out), &object))
	if strings.Count(out, "\n") != 1 {
		ts.Fatalf("not one line")
	}
	for _, key := range args {
		var at any = object
		for _, name := range strings.Split(key, ".") {
			inside, _ := at.(map[string]any)
			var ok bool
			if at, ok = inside[name]; !ok {
				ts.Fatalf("no key %s", key)
			}
		}
	}
}

// datasets N checks that the cache root holds N datasets, and nothing unfinished.
func datasets(ts *testscript.TestScript, neg bool, args []string) {
	root := ts.Getenv("AGENTX_CACHE")
	for dir, want := range map[string]string{"dataset": args[0], ".staging": "0"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			ts.Check(err)
		}
		if strconv.Itoa(len(entries)) != want {
			ts.Fatalf("%d entries in %s, want %s", len(entries), dir, want)
		}
	}
}

// damage flip|cut|grow|remove KIND FILE damages a file of the only part of a kind.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	files, err := filepath.Glob(filepath.Join(ts.Getenv("AGENTX_CACHE"), args[1], "*", args[2]))
	ts.Check(err)
	if len(files) != 1 {
		ts.Fatalf("%d files", len(files))
	}
	data, err := os.ReadFile(files[0])
	ts.Check(err)
	switch args[0] {
	case "flip":
		data[len(data)*2/3] ^= 0x10
	case "cut":
		data = data[:len(data)-1]
	case "grow":
		data = append(data, 0)
	case "remove":
		ts.Check(os.Remove(files[0]))
		return
	}
	ts.Check(os.WriteFile(files[0], data, 0o600))
}

// readonly DIR makes a directory and everything in it read-only until the script ends.
func readonly(ts *testscript.TestScript, neg bool, args []string) {
	dir := ts.MkAbs(args[0])
	set := func(file, directory fs.FileMode) {
		ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				return os.Chmod(path, directory)
			}
			return errors.Join(err, os.Chmod(path, file))
		}))
	}
	set(0o444, 0o555)
	ts.Defer(func() { set(0o644, 0o755) })
}

// tree DIR FILE writes the names, sizes and times of everything in a directory to a file.
func tree(ts *testscript.TestScript, neg bool, args []string) {
	var out strings.Builder
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".use" { // root may write notes there although the cache is read-only
			return fs.SkipDir
		}
		info, err := d.Info()
		fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano())
		return err
	}))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o600))
}

// scriptServers are the servers that a script has started.
type scriptServers struct {
	mock *mock.Server
	hub  *fakehub.Hub
}

func serversOf(ts *testscript.TestScript) *scriptServers { return ts.Value("servers").(*scriptServers) }

// server FAULT... starts a mock server, whose address is then in $URL.
func server(ts *testscript.TestScript, neg bool, args []string) {
	var config mock.Config
	for _, text := range args {
		fault, err := mock.ParseFault(text)
		ts.Check(err)
		config.Faults = append(config.Faults, fault)
	}
	m := mock.New(config)
	s := httptest.NewServer(m)
	serversOf(ts).mock = m
	ts.Setenv("URL", s.URL)
	ts.Defer(func() {
		s.CloseClientConnections()
		s.Close()
	})
}

// arrived N waits until N requests have reached the server.
func arrived(ts *testscript.TestScript, neg bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	waitFor(ts, func() bool { return serversOf(ts).mock.Stats().OpenRequests >= int64(n) })
}

// asked N checks that the server has got N requests for completions.
func asked(ts *testscript.TestScript, neg bool, args []string) {
	if n := serversOf(ts).mock.Stats().Requests; fmt.Sprint(n) != args[0] {
		ts.Fatalf("%d requests, want %s", n, args[0])
	}
}

// waitFor waits for a condition.
func waitFor(ts *testscript.TestScript, condition func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for tries := 0; !condition(); tries++ {
		if tries == 30_000 {
			ts.Fatalf("it does not come")
		}
		<-tick.C
	}
}

// serving ARGS... starts agentx mock with these arguments, waits for the line that says where it listens, and sets $URL.
// When the script ends, the server is interrupted and must end well.
func serving(ts *testscript.TestScript, neg bool, args []string) {
	dir, _, _ := strings.Cut(ts.Getenv("PATH"), string(filepath.ListSeparator))
	cmd := exec.Command(filepath.Join(dir, "agentx"), append([]string{"mock"}, args...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	first, err := bufio.NewReader(stdout).ReadString('\n')
	ts.Check(err)
	url, ok := strings.CutPrefix(strings.TrimSpace(first), "listening ")
	if !ok {
		ts.Fatalf("first line %q", first)
	}
	ts.Setenv("URL", url)
	ts.Defer(func() {
		ts.Check(cmd.Process.Signal(os.Interrupt))
		ts.Check(cmd.Wait())
	})
}

// freeport NAME sets a variable to an address of this machine at which nothing listens.
func freeport(ts *testscript.TestScript, neg bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Setenv(args[0], l.Addr().String())
	ts.Check(l.Close())
}

// count N FILE checks the number of lines of a file.
func count(ts *testscript.TestScript, neg bool, args []string) {
	if n := strings.Count(ts.ReadFile(args[1]), "\n"); strconv.Itoa(n) != args[0] {
		ts.Fatalf("%d lines, want %s", n, args[0])
	}
}

// instants OUT OUT checks that two runs began their lanes at the same instants of the same traces.
func instants(ts *testscript.TestScript, neg bool, args []string) {
	var began [2]string
	for k, dir := range args {
		for line := range strings.Lines(ts.ReadFile(dir + "/lanes.jsonl")) {
			var l struct {
				Trace string
				TStar float64 `json:"t_star"`
			}
			ts.Check(json.Unmarshal([]byte(line), &l))
			began[k] += fmt.Sprintln(l)
		}
	}
	if same := began[0] == began[1]; same == neg {
		ts.Fatalf("the same: %v\n%s\n%s", same, began[0], began[1])
	}
}

// corpus FILE writes a corpus of token ids that is small enough to be converted often.
func corpus(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), smallCorpus(), 0o600))
}

// smallCorpus returns a corpus of token ids of o200k_base: some pages of the corpus code.
var smallCorpus = sync.OnceValue(func() (data []byte) {
	tok, err := tokenizer.Load("o200k_base")
	if err != nil {
		panic(err)
	}
	for _, id := range tok.Encode(string(textcorpus.Code()[:18_000])) {
		data = binary.LittleEndian.AppendUint32(data, id)
	}
	return data
})

// agentx runs a command line in this process.
func agentx(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems strings.Builder
	require.Zero(t, run(args, nil, &out, &problems), problems.String())
	return out.String()
}

// Hash ids of subagents that share a scope stand for the same text in all of them.
func TestSiblingsWithSharedIDsShowTheSameText(t *testing.T) {
	root := warmRoot(t)
	path := strings.TrimSpace(agentx(t, "convert", "demo", "--quiet", "--cache", root))
	path = path[strings.LastIndexByte(path, '\n')+1:]
	type turn struct {
		Session  string
		Messages []struct{ Role, Content string }
	}
	first := func(trace string) (turns []turn) {
		for line := range strings.Lines(agentx(t, "inspect", path, "--messages", "--trace", trace, "--turn", "0")) {
			var u turn
			require.NoError(t, json.Unmarshal([]byte(line), &u))
			turns = append(turns, u)
		}
		return turns
	}
	siblings := first("demo-10-siblings")
	require.Len(t, siblings, 3)
	const clearly = 2500 // bytes; the last block of a system prompt holds the beginning of what follows it
	a, b := siblings[1].Messages, siblings[2].Messages
	require.Equal(t, "system", a[0].Role)
	require.True(t, a[0].Content[:clearly] == b[0].Content[:clearly], "they share the ids of the system prompt")
	require.False(t, a[1].Content == b[1].Content)
	require.False(t, siblings[0].Messages[0].Content[:clearly] == a[0].Content[:clearly], "their parent has another one")

	family := first("demo-15-family")
	require.Len(t, family, 2)
	parent, child := family[0].Messages, family[1].Messages
	require.True(t, parent[0] == child[0])
	require.True(t, parent[1].Content[:clearly] == child[1].Content[:clearly], "the child begins with the prompt of its parent")
}

// Every verb has a help text.
func TestEveryFlagIsDescribed(t *testing.T) {
	root := newRoot()
	verbs := []string{}
	for _, verb := range root.Commands() {
		verbs = append(verbs, verb.Name())
		require.NotEmpty(t, verb.Short, verb.Name())
		help := agentx(t, "help", verb.Name())
		require.Contains(t, help, verb.Name())
	}
	for _, want := range []string{"cache", "convert", "demo", "inspect", "mock", "replay", "version"} {
		require.True(t, slices.Contains(verbs, want), want)
	}
}
