package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
)

// telling serves a list of models and properties beside a mock. An empty document is none.
func telling(t *testing.T, list, props string) (url string) {
	server := mock.New(mock.Config{})
	url, _ = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		document := map[string]string{"/v1/models": list, "/props": props}[r.URL.Path]
		switch {
		case r.Method == http.MethodPost:
			server.ServeHTTP(w, r)
		case document == "":
			http.NotFound(w, r)
		default:
			fmt.Fprint(w, document)
		}
	}))
	return url
}

// Before the first request the server tells how long its context is, and the traces with a longer request are counted: left out where
// that was asked for, else warned of.
//
// Covers T-102.
func TestContextBeforeTheRun(t *testing.T) {
	c := threeTraces(t) // their longest requests have 130, 66 and 258 tokens, prompt and output together
	vllm := func(n string) string { return `{"data":[{"id":"some/model","max_model_len":` + n + `}]}` }
	const slots = `{"default_generation_settings":{"n_ctx":130},"n_ctx":7}`
	warned := func(n int) string {
		return fmt.Sprintf("%d of 3 traces have requests above the server's 130 tokens (max_model_len), prompt and output together: --max-context server leaves them out", n)
	}
	for name, test := range map[string]struct {
		list, props         string
		max, traces         int
		played              string
		want                string // as JSON
		noticed, warnedSaid string
	}{
		"nobody tells":             {"", "", 0, 0, "a b c", `null`, "", ""},
		"all fit":                  {vllm("258"), "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":258,"from":"max_model_len","above":0}`, "", ""},
		"one is too long":          {vllm("130"), "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"it is left out":           {vllm("130"), "", ServerContext, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":130,"from":"max_model_len","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"one token less":           {vllm("129"), "", ServerContext, 0, "b", `{"tokens":129,"traces":3,"left_out":2,"server":129,"from":"max_model_len","above":0}`, "2 of 3 traces are left out: they have requests above 129 tokens, prompt and output together", ""},
		"a number":                 {"", "", 130, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":0,"from":"","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"a number above it":        {vllm("100"), "", 130, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":100,"from":"max_model_len","above":1}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", "1 of 2 traces have requests above the server's 100 tokens (max_model_len), prompt and output together: --max-context server leaves them out"},
		"the first that fits":      {vllm("66"), "", ServerContext, 1, "b", `{"tokens":66,"traces":2,"left_out":1,"server":66,"from":"max_model_len","above":0}`, "1 of 2 traces are left out: they have requests above 66 tokens, prompt and output together", ""},
		"a slot of llama.cpp":      {`{"data":[{"id":"some/model","meta":{"n_ctx_train":9}}]}`, slots, ServerContext, 0, "a b", `{"tokens":130,"traces":3,"left_out":1,"server":130,"from":"n_ctx","above":0}`, "1 of 3 traces are left out: they have requests above 130 tokens, prompt and output together", ""},
		"the list, not the slot":   {vllm("258"), slots, ServerContext, 0, "a b c", `{"tokens":258,"traces":3,"left_out":0,"server":258,"from":"max_model_len","above":0}`, "", ""},
		"an adapter":               {`{"data":[{"id":"some/model","max_model_len":null},{"id":"base","max_model_len":130},{"id":"other","max_model_len":130}]}`, "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"several models":           {`{"data":[{"id":"x","max_model_len":9},{"id":"some/model","max_model_len":130}]}`, "", 0, 0, "a b c", `{"tokens":0,"traces":3,"left_out":0,"server":130,"from":"max_model_len","above":1}`, "", warned(1)},
		"several, none is it":      {`{"data":[{"id":"x","max_model_len":9},{"id":"y","max_model_len":130}]}`, "", 0, 0, "a b c", `null`, "", ""},
		"what is no number at all": {vllm(`"130"`), `{"default_generation_settings":[]}`, 0, 0, "a b c", `null`, "", ""},
		"no tokens":                {vllm("0"), `{"default_generation_settings":{"n_ctx":-1}}`, 0, 0, "a b c", `null`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, c, telling(t, test.list, test.props)+"/v1")
			o.SkipPreflight, o.MaxContext, o.Traces, o.Concurrency = false, test.max, test.traces, 1
			var noticed, said []string
			o.Notice, o.Warn = func(s string) { noticed = append(noticed, s) }, func(s string) { said = append(said, s) }
			p := play(t, t.Context(), o)
			var got []string
			for _, r := range p.records {
				if len(got) == 0 || got[len(got)-1] != r.Trace {
					got = append(got, r.Trace)
				}
			}
			require.Equal(t, test.played, strings.Join(got, " "))
			context, err := json.Marshal(p.Context)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(context))
			require.Equal(t, test.noticed, strings.Join(noticed, "; "))
			require.Equal(t, test.warnedSaid, strings.Join(said, "; "))
			info, err := measure.ReadInfo(o.Out)
			require.NoError(t, err)
			require.Equal(t, p.Context, info.Context)
		})
	}
}

// A server that does not tell its context ends a run that was to have it, before the first request. Of several, the shortest counts.
//
// Covers T-102.
func TestContextThatIsNotTold(t *testing.T) {
	long, short := telling(t, `{"data":[{"id":"some/model","max_model_len":258}]}`, ""), telling(t, "", `{"default_generation_settings":{"n_ctx":130}}`)
	o := optionsFor(t, threeTraces(t), telling(t, `{"data":[{"id":"some/model"}]}`, ""))
	o.SkipPreflight, o.MaxContext, o.Concurrency = false, ServerContext, 1
	s, err := Run(t.Context(), o)
	var refused *PreflightError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, PreflightError{
		Reason: o.URLs[0] + ": it does not tell how long its context is: no max_model_len in GET /v1/models, no n_ctx in GET /props", Hint: "--max-context TOKENS",
	}, *refused)
	require.Zero(t, s.Requests)
	require.Equal(t, refused.Reason, s.Preflight.Error)

	o.URLs, o.Overwrite = append([]string{long}, o.URLs...), true
	_, err = Run(t.Context(), o)
	require.ErrorAs(t, err, &refused)

	o.URLs = []string{long, short}
	p := play(t, t.Context(), o)
	require.EqualValues(t, 130, *p.Preflight.ContextTokens)
	require.Equal(t, "n_ctx", p.Preflight.ContextFrom)
	require.Equal(t, 1, p.Context.LeftOut)
}
