package replay

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
)

// A server tells its version, and whether it caches prefixes, when the measured phase is over; what it does not tell is not known.
func TestServersTellWhatTheyAre(t *testing.T) {
	c := threeTraces(t)
	yes, no := true, false
	config := func(value string) string {
		return "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{enable_prefix_caching=\"" + value + "\"} 1\n"
	}
	for name, test := range map[string]struct {
		documents map[string]string
		blocks    int // of the prefix cache
		skip      bool
		want      measure.Server // without its URL
	}{
		"it tells nothing": {blocks: -1},
		"vLLM": {map[string]string{"/version": `{"version":"0.11.0"}`, "/v1/models": `{"data":[{"id":"some/model","owned_by":"vllm"}]}`, "/metrics": config("True")}, -1, false,
			measure.Server{Software: "vllm", Version: "0.11.0", PrefixCaching: &yes, PrefixCachingFrom: "metrics"}},
		"vLLM without a cache":  {map[string]string{"/metrics": config("False")}, -1, false, measure.Server{PrefixCaching: &no, PrefixCachingFrom: "metrics"}},
		"engines that differ":   {map[string]string{"/metrics": config("False") + "vllm:cache_config_info{enable_prefix_caching=\"True\"} 1\n"}, -1, false, measure.Server{}},
		"SGLang":                {map[string]string{"/get_server_info": `{"version":"0.5.4","disable_radix_cache":true}`}, -1, false, measure.Server{Software: "sglang", Version: "0.5.4", PrefixCaching: &no, PrefixCachingFrom: "server"}},
		"SGLang of another age": {map[string]string{"/server_info": `{"version":"0.4","server_args":{"disable_radix_cache":false}}`}, -1, false, measure.Server{Software: "sglang", Version: "0.4", PrefixCaching: &yes, PrefixCachingFrom: "server"}},
		"llama.cpp":             {map[string]string{"/props": `{"build_info":"b7000-abc\u001b[2J"}`}, -1, false, measure.Server{Software: "llama.cpp", Version: "b7000-abc [2J"}},
		"TGI":                   {map[string]string{"/info": `{"model_id":"m","version":"3.3.6"}`}, -1, false, measure.Server{Software: "text-generation-inference", Version: "3.3.6"}},
		"another /info":         {map[string]string{"/info": `{"version":"1"}`, "/version": `"1"`}, -1, false, measure.Server{}},
		"answers tell":          {nil, 0, false, measure.Server{PrefixCaching: &yes, PrefixCachingFrom: "answers"}},
		"it is not asked":       {map[string]string{"/version": `{"version":"0.11.0"}`}, -1, true, measure.Server{}},
	} {
		t.Run(name, func(t *testing.T) {
			server := mock.New(mock.Config{CacheBlocks: test.blocks})
			url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch document, ok := test.documents[r.URL.Path]; {
				case r.Method == http.MethodPost:
					server.ServeHTTP(w, r)
				case ok:
					fmt.Fprint(w, document)
				default:
					http.NotFound(w, r)
				}
			}))
			o := optionsFor(t, c, url)
			o.SkipPreflight, o.Scrape = test.skip, Scrape{}
			p := play(t, t.Context(), o)
			test.want.URL = url
			require.Equal(t, []measure.Server{test.want}, p.Run.Servers)
			info, err := measure.ReadInfo(o.Out)
			require.NoError(t, err)
			require.Equal(t, p.Run.Servers, info.Servers)
		})
	}
}
