package capture

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// awaitTasks waits until workers have done so many tasks.
func (r *running) awaitTasks(n int) {
	require.Eventually(r.t, func() bool { return r.pool.progress() >= n }, 10*time.Second, time.Millisecond)
}

// early is an upstream that begins its reply before it reads the request, and ends it behind that.
func early(header http.Header, begin, end []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		_, _ = w.Write(begin)
		_ = control.Flush()
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(end)
	})
}

// upload sends a request whose second half follows when meanwhile returns, which is called once the reply has begun.
func (r *running) upload(path, body string, meanwhile func()) {
	upload, client := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, r.traffic+path, upload)
	require.NoError(r.t, err)
	req.Header.Set("Accept-Encoding", "gzip") // or the client undoes it
	half := len(body) / 2
	go func() { _, _ = io.WriteString(client, body[:half]) }()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	meanwhile()
	_, err = io.WriteString(client, body[half:])
	require.NoError(r.t, err)
	require.NoError(r.t, client.Close())
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(r.t, err)
}

// A coded reply that is lost after a part of it was read leaves nothing behind: its decoder ends.
//
// Covers C-26.
func TestLostCodedReply(t *testing.T) {
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	_, err := io.WriteString(w, "{")
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	up := early(http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, coded.Bytes(), make([]byte, 2000))
	r := start(t, up, func(o *Options) { o.Limits.ReplyCopy = 1000 })
	r.upload("/s/a"+chatPath, chatBody("some text"), func() { r.awaitTasks(1) })
	s, _ := r.end()
	require.Equal(t, map[journal.Reason]int{"oversize": 1}, s.NotRecorded)
	r.requireAtRest()
}

// What a client uploads after a worker has found no room for its reply is kept no more.
//
// Covers C-26.
func TestUploadAfterLostReply(t *testing.T) {
	up := early(http.Header{"Content-Type": {"application/json"}}, bytes.Repeat([]byte(" "), 4000), nil)
	r := start(t, up, func(o *Options) { o.Limits.Queue = 8000 }) // for a piece, not for what the reader keeps of it besides
	r.upload("/s/a"+chatPath, chatBody(strings.Repeat("some text ", 1000)), func() { r.awaitTasks(1) })
	s, _ := r.end()
	require.Equal(t, map[journal.Reason]int{"queue": 1}, s.NotRecorded)
	r.requireAtRest()
}
