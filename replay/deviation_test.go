package replay

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// A server that does not do what requests ask for is warned of once for each kind of deviation. A deviation that the fields
// of the bodies ask for is only counted.
func TestDeviationsAreReported(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/moved", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	for name, c := range map[string]struct {
		fields payload.Fields
		said   []string
	}{
		"as asked":      {payload.Fields{}, []string{"answers shorter", "answers not streamed", "prompts whose token count differs", "requests sent twice"}},
		"not as strict": {payload.Fields{OmitIgnoreEOS: true}, []string{"answers not streamed", "prompts whose token count differs", "requests sent twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var said []string
			o := optionsFor(t, cachetest.Demo(t), url)
			o.Requests, o.Fields = 20, c.fields
			o.Warn = func(about string) { mu.Lock(); defer mu.Unlock(); said = append(said, about) }
			p := play(t, t.Context(), o)
			require.Equal(t, 20, p.Completed)
			require.Equal(t, 20, p.Deviations["short_output"].Requests)
			require.Equal(t, 20, p.Deviations["not_streamed"].Requests)
			require.Equal(t, 20, p.Deviations["prompt_count"].Requests)
			require.Equal(t, 20, p.Deviations["redirected"].Requests)
			require.Equal(t, measure.Deviation{}, p.Deviations["no_usage"])
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, said, len(c.said), said)
			for k, want := range c.said {
				require.True(t, strings.HasPrefix(said[k], want), said[k])
				require.Contains(t, said[k], "trace ")
			}
		})
	}
}
