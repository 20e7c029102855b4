package hub

import (
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fakehub"
)

// BenchmarkFetch compares a download over the loopback interface with a plain GET that hashes the bytes and writes them to
// a synced file, and a verified hit in the cache with plain hashing.
func BenchmarkFetch(b *testing.B) {
	const size = 256 << 20
	h := fakehub.New()
	require.NoError(b, h.Listen())
	defer h.Close()
	bytes := content(size, 1)
	h.Commit(repoName, "main", map[string]fakehub.File{data: {Data: bytes, LFS: true}})
	env := map[string]string{"HF_ENDPOINT": h.HubURL}
	o := Options{Version: "bench", Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	fetch := func() time.Duration {
		begin := time.Now()
		s, err := Fetch(b.Context(), Ref{Repo: repoName, Path: data}, o)
		require.NoError(b, err)
		took := time.Since(begin)
		require.NoError(b, s.Close())
		return took
	}
	var cold, plain, warm, hash time.Duration
	for b.Loop() {
		dir := b.TempDir()
		env["HF_HOME"] = dir
		cold += fetch()
		warm += fetch()

		begin := time.Now()
		r, err := http.Get(h.HubURL + "/datasets/" + repoName + "/resolve/main/" + data)
		require.NoError(b, err)
		f, err := os.Create(filepath.Join(dir, "plain"))
		require.NoError(b, err)
		sum := sha256.New()
		_, err = io.Copy(io.MultiWriter(f, sum), r.Body)
		require.NoError(b, err)
		require.NoError(b, f.Sync())
		plain += time.Since(begin)
		require.NoError(b, r.Body.Close())

		_, err = f.Seek(0, io.SeekStart)
		require.NoError(b, err)
		begin = time.Now()
		_, err = io.CopyBuffer(struct{ io.Writer }{sha256.New()}, struct{ io.Reader }{f}, make([]byte, 1<<20))
		require.NoError(b, err)
		hash += time.Since(begin)
		require.NoError(b, f.Close())
		require.NoError(b, os.RemoveAll(dir))
	}
	mb := float64(size) * float64(b.N) / 1e6
	b.ReportMetric(mb/cold.Seconds(), "MB/s")
	b.ReportMetric(float64(cold)/float64(plain), "x-plain-GET")
	b.ReportMetric(mb/warm.Seconds(), "warm-MB/s")
	b.ReportMetric(float64(warm)/float64(hash), "x-plain-sha256")
}
