package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// capturing is agentx capture while it runs.
type capturing struct {
	traffic string // URL
	admin   string // URL
	stderr  strings.Builder
	end     func() error
}

// startCapture runs agentx capture with flags until its end is called.
func startCapture(t *testing.T, flags ...string) *capturing {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c, ended := &capturing{}, make(chan error, 1)
	out, stdout := io.Pipe()
	root := newRoot()
	root.SetArgs(append([]string{"capture", "--out", t.TempDir()}, flags...))
	root.SetOut(stdout)
	root.SetErr(&c.stderr)
	go func() {
		err := root.ExecuteContext(ctx)
		stdout.Close()
		ended <- err
	}()
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		require.NoError(t, <-ended, "%s", &c.stderr)
	}
	require.NoError(t, err)
	c.traffic = strings.TrimSpace(strings.TrimPrefix(first, "listening "))
	second, err := lines.ReadString('\n')
	require.NoError(t, err)
	c.admin = strings.TrimSpace(strings.TrimPrefix(second, "admin "))
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	c.end = func() error { stop(); return <-ended }
	t.Cleanup(stop)
	return c
}

// What an upstream says behind its reply is in no log: net/http quotes it in the log of the process.
//
// Covers C-38.
func TestCaptureLogsNoWordOfUpstreams(t *testing.T) {
	defer log.SetOutput(log.Writer())
	var logged strings.Builder
	log.SetOutput(&logged)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	answered, closed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(closed)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		<-answered // the connection is kept, for further requests
		_, _ = io.WriteString(conn, "CANARY")
		_, _ = io.Copy(io.Discard, in) // until the capture closes
	}()
	c := startCapture(t, "--upstream", "http://"+l.Addr().String())
	resp, err := http.Get(c.traffic + "/v1/models")
	require.NoError(t, err)
	resp.Body.Close()
	close(answered)
	<-closed
	require.NoError(t, c.end())
	require.NotContains(t, logged.String()+c.stderr.String(), "CANARY")
}

// Where other machines reach a capture, its admin listener wants a token, which is told once where nobody gave it; traffic stays open,
// and a line says so. On this machine alone nothing is said.
//
// Covers C-45.
func TestDoorsOfCapture(t *testing.T) {
	ask := func(c *capturing, token string) int {
		r, err := http.NewRequest(http.MethodGet, strings.Replace(c.admin, "[::]", "127.0.0.1", 1)+"/sessions", nil)
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}
	for _, given := range []string{"", "s3cret-of-the-test"} {
		t.Setenv("AGENTX_ADMIN_TOKEN", given)
		c := startCapture(t, "--upstream", "http://127.0.0.1:1", "--listen", "0.0.0.0:0", "--admin", "0.0.0.0:0")
		require.Equal(t, http.StatusUnauthorized, ask(c, ""))
		if given != "" {
			require.Equal(t, http.StatusOK, ask(c, given))
		}
		require.NoError(t, c.end())
		said := c.stderr.String()
		require.Contains(t, said, "agentx: --listen [::]:")
		require.Contains(t, said, " serves everybody who can reach it")
		drawn := regexp.MustCompile(`this token: ([0-9a-f]{32}) `).FindAllStringSubmatch(said, -1)
		require.Equal(t, given == "", len(drawn) == 1, said)
		require.NotContains(t, said, "s3cret")
	}
	t.Setenv("AGENTX_ADMIN_TOKEN", "")
	c := startCapture(t, "--upstream", "http://127.0.0.1:1")
	require.Equal(t, http.StatusOK, ask(c, ""))
	require.NoError(t, c.end())
	require.Equal(t, "export ANTHROPIC_BASE_URL="+c.traffic+"\nexport OPENAI_BASE_URL="+c.traffic+"/v1\n", c.stderr.String())
}

// leftJournal is the journal of a session of one request.
const leftJournal = `8365bff2 {"k":"head","v":1,"trace":"cap-3f9a1c20","bs":4,"canon":"canon-1","tok":"o200k_base","by":"header"}
9c52f9ba {"k":"begin","q":0,"t":0,"a":0}
c224ebaf {"k":"model","i":0,"name":"m-large"}
6a3c30d4 {"k":"ids","q":0,"m":0,"s":1,"in":22,"tool":0,"sys":9,"base":-1,"keep":0,"new":5,"it":1}
ad598796 {"k":"end","q":0,"t":2004,"first":612,"x":"complete","status":200,"out":9,"ot":5,"stop":1}
32881585 {"k":"final","why":"idle"}
`

// A signal ends a capture as a rule. One that fails while it ends has failed, and was not interrupted.
func TestCaptureThatFailsAtItsEnd(t *testing.T) {
	out := t.TempDir()
	obstacle := filepath.Join(out, journal.NotesDir, "cap-3f9a1c20.json", "full") // where the note of a journal belongs
	require.NoError(t, errors.Join(os.MkdirAll(obstacle, 0o700), os.Mkdir(filepath.Join(out, "journal"), 0o700)))
	require.NoError(t, os.WriteFile(filepath.Join(out, "journal", "cap-3f9a1c20.jnl"), []byte(leftJournal), 0o600))
	c := startCapture(t, "--upstream", "http://127.0.0.1:1", "--out", out)
	err := c.end()
	require.ErrorContains(t, err, "1 of the journals could not be finished: agentx capture finish "+out+" does it later")
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	require.Equal(t, exitFailed, reportError(interrupted, io.Discard, err))
	require.Equal(t, exitInterrupted, reportError(interrupted, io.Discard, errors.New("results could not be written")))
}

// An upstream that is the capture itself is refused.
func TestCaptureOfItself(t *testing.T) {
	for _, c := range []struct {
		listening, upstream string
		loops               bool
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", true}, {"127.0.0.1:8080", "localhost:8080", true}, {"[::1]:8080", "[::1]:8080", true},
		{"0.0.0.0:8080", "127.0.0.1:8080", true}, {"[::]:8080", "localhost:8080", true}, {"10.0.0.1:8080", "10.0.0.1:8080", true},
		{"127.0.0.1:8080", "127.0.0.1:8081", false}, {"127.0.0.1:8080", "127.0.0.1", false}, {"10.0.0.1:8080", "localhost:8080", false},
		{"0.0.0.0:8080", "example.com:8080", false}, {"127.0.0.1:8080", "127.0.0.2:8080", false},
	} {
		at, err := net.ResolveTCPAddr("tcp", c.listening)
		require.NoError(t, err)
		err = loop(at, []carry.Upstream{{Scheme: "http", Host: "other"}, {Scheme: "http", Host: c.upstream}})
		require.Equal(t, c.loops, err != nil, "%v", c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second) // one that is not refused would run
	defer stop()
	root := newRoot()
	root.SetArgs([]string{"capture", "--out", t.TempDir(), "--listen", address, "--upstream", "http://" + address})
	require.EqualError(t, root.ExecuteContext(ctx), fmt.Sprintf("--upstream http://%s: the capture itself listens there: name the API instead", address))
}

// Limits take sizes and durations as all flags do.
func TestLimitsOfCapture(t *testing.T) {
	var l capture.Limits
	for _, text := range []string{"request_copy=1", "reply_copy=2k", "copies=1.5Gi", "queue=64MiB", "sessions=3", "blocks=4", "nodes=5", "header_timeout=90", "stall=5m", "disk_free=0"} {
		require.NoError(t, setLimit(&l, text))
	}
	require.Equal(t, capture.Limits{
		RequestCopy: 1, ReplyCopy: 2000, Copies: 3 << 29, Queue: 64 << 20, Sessions: 3, Blocks: 4, Nodes: 5, HeaderTimeout: 90 * time.Second, Stall: 5 * time.Minute,
	}, l)
	for text, want := range map[string]string{
		"queue": "want NAME=VALUE", "queue=x": "want a size such as 500M, 20G or 1.5Gi", "blocks=1e3": "want a whole number",
		"stall=x": "want a duration such as 90s or 10m, or seconds", "session=5": "unknown limit: did you mean sessions?",
		"x=5": "unknown limit: want one of request_copy, reply_copy, copies, queue, sessions, blocks, nodes, header_timeout, stall, disk_free",
	} {
		require.EqualError(t, setLimit(&l, text), want)
	}
}

// The official clients of OpenAI and Anthropic get through a capture what they get without one, and the traces have what
// contrib/capture-clients computes from what they sent. AIPerf, where it is installed, reads these traces as conversion does.
//
// Covers C-33, C-41, C-42.
func TestOfficialClients(t *testing.T) {
	python := os.Getenv("CAPTURE_CLIENTS_PYTHON")
	if python == "" {
		t.Skip("needs the clients: make test-capture-clients")
	}
	program := filepath.Join(t.TempDir(), "agentx")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(t.Context(), python, "../../contrib/capture-clients/run.py", program, t.TempDir(), os.Getenv("CAPTURE_CLIENTS_RANKS"), os.Getenv("CAPTURE_CLIENTS_AIPERF"))
	run.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err = run.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}
