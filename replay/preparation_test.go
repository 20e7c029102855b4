package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// virtualPauses is a pauseClock that moves only when it is told to wait.
type virtualPauses struct{ at time.Duration }

func (c *virtualPauses) now() time.Duration { return c.at }

func (c *virtualPauses) pause(ctx context.Context, d time.Duration) error {
	c.at += d
	return context.Cause(ctx)
}

// answered returns the failure of an answer of the vectors: a status, or "connection".
func answered(t *testing.T, answer json.RawMessage) *wire.Failure {
	var status int
	if json.Unmarshal(answer, &status) != nil {
		require.JSONEq(t, `"connection"`, string(answer))
		return &wire.Failure{Category: wire.Connection}
	}
	if status == 200 {
		return nil
	}
	return &wire.Failure{Category: wire.HTTPStatus, Code: status}
}

// The attempts to reach a model and to reset a cache begin at the instants of the vectors.
//
// Covers T-58.
func TestAttemptsAsInTheVectors(t *testing.T) {
	seen := 0
	fixtures.EachCase(t, "before_run", fixtures.Counts{7, 7, 7}, func(t *testing.T, _ fixtures.Case, in struct {
		Step     string
		Answers  []json.RawMessage
		TimeoutS float64 `json:"timeout_s"`
		TakesS   float64 `json:"takes_s"`
	}, want struct {
		AtS []float64 `json:"at_s"`
		OK  bool
	}) {
		c := &virtualPauses{}
		var about patience
		switch in.Step {
		case "wait":
			about = waitPatience(5*time.Second, inSeconds(in.TimeoutS))
		case "reset":
			about = resetPatience(0)
		default:
			t.Skip("a list: TestAListPreparesEachRun")
		}
		seen++
		var at []float64
		n, f, err := about.attempts(t.Context(), c, func(context.Context) *wire.Failure {
			at = append(at, c.at.Seconds())
			c.at += inSeconds(in.TakesS)
			return answered(t, in.Answers[len(at)-1])
		}, func(*wire.Failure) {})
		require.NoError(t, err)
		require.Equal(t, want.AtS, at)
		require.Equal(t, at[len(at)-1], c.at.Seconds(), "it ends with its last attempt")
		require.Len(t, at, n)
		require.Equal(t, want.OK, f == nil)
	})
	require.Equal(t, 18, seen, "six under each preset")
}

func inSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Statuses that may get better are tried again, and no other: doc/spec/replay.md 2.8.
func TestStatusesThatAreTriedAgain(t *testing.T) {
	wait, reset := waitPatience(time.Second, time.Minute), resetPatience(0)
	var waits, resets []int
	for status := 300; status < 600; status++ {
		f := &wire.Failure{Category: wire.HTTPStatus, Code: status}
		if wait.again(f) && status < 500 {
			waits = append(waits, status)
		}
		if reset.again(f) {
			resets = append(resets, status)
		}
		require.Equal(t, status >= 500, wait.again(f) && status >= 500)
	}
	require.Equal(t, []int{404, 408, 425, 429}, waits)
	require.Equal(t, []int{409, 423, 429, 503}, resets)
	for _, p := range []patience{wait, reset} {
		require.True(t, p.again(&wire.Failure{Category: wire.Connection}))
		require.True(t, p.again(&wire.Failure{Category: wire.Timeout}))
		require.False(t, p.again(&wire.Failure{Category: wire.Internal}), "the fault is on this side")
	}
}

// A late attempt gets no further one, and a server that is reached too late gets none.
func TestNoAttemptStartsTooLate(t *testing.T) {
	c := &virtualPauses{}
	slow := func(context.Context) *wire.Failure {
		c.at += 7 * time.Second
		return &wire.Failure{Category: wire.Timeout}
	}
	n, _, _ := waitPatience(5*time.Second, 12*time.Second).attempts(t.Context(), c, slow, func(*wire.Failure) {})
	require.Equal(t, 2, n, "at 0 s and 12 s")
	n, f, err := waitPatience(5*time.Second, 12*time.Second).attempts(t.Context(), c, slow, func(*wire.Failure) {})
	require.NoError(t, err)
	require.Zero(t, n)
	require.NotNil(t, f)

	busy := func(context.Context) *wire.Failure { return &wire.Failure{Category: wire.HTTPStatus, Code: 409} }
	begin := c.at // at a second server
	n, _, _ = resetPatience(begin).attempts(t.Context(), c, busy, func(*wire.Failure) {})
	require.Equal(t, 10, n)
	require.Equal(t, 55*time.Second, c.at-begin)
}

// prepared is a mock server that answers a path with some statuses first, and keeps the order of its requests.
type prepared struct {
	mu       sync.Mutex
	statuses map[string][]int // by method and path
	log      []string
	server   *mock.Server
}

func (p *prepared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, status := r.Method+" "+r.URL.Path, 0
	p.mu.Lock()
	p.log = append(p.log, key)
	if list := p.statuses[key]; len(list) > 0 {
		status, p.statuses[key] = list[0], list[1:]
	}
	p.mu.Unlock()
	if status != 0 {
		http.Error(w, `{"error":{"message":"not for `+r.Header.Get("Authorization")+`"}}`, status)
		return
	}
	p.server.ServeHTTP(w, r)
}

func (p *prepared) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.log...)
}

// preparedMock starts such a server.
func preparedMock(t *testing.T, statuses map[string][]int) (*prepared, string) {
	p := &prepared{statuses: statuses, server: mock.New(mock.Config{})}
	url, _ := serve(t, p)
	return p, url
}

const (
	completions = "POST /v1/completions"
	chat        = "POST /v1/chat/completions"
	models      = "GET /v1/models"
	resetPath   = "POST /reset_prefix_cache"
)

// preparationFor returns the preparation of a run, on a virtual clock, and what it says.
func preparationFor(t *testing.T, o Options) (p *preparation, said *[]string) {
	o = o.WithDefaults()
	e, _, err := payload.NewEncoder(o.Cache, payload.Options{Endpoint: o.Endpoint, Model: o.Model, Marker: o.Marker, Fields: o.Fields})
	require.NoError(t, err)
	said = new([]string)
	return &preparation{Options: o, encoder: e, clock: &virtualPauses{}, notice: func(s string) { *said = append(*said, s) }}, said
}

// A run waits for the model, looks at the server, resets the cache, and then sends: in this order, at every server.
//
// Covers T-58.
func TestOrderBeforeTheFirstRequest(t *testing.T) {
	first, firstURL := preparedMock(t, nil)
	second, secondURL := preparedMock(t, nil)
	o := optionsFor(t, cachetest.Demo(t), firstURL)
	o.URLs = append(o.URLs, secondURL)
	o.Readiness, o.CacheReset.Enabled, o.SkipPreflight = Readiness{Timeout: time.Minute}, true, false
	p := play(t, context.Background(), o)
	for _, server := range []*prepared{first, second} {
		require.Equal(t, []string{completions, models, completions, "GET /props", resetPath, completions}, server.requests()[:6])
		require.NotContains(t, server.requests()[5:], resetPath)
	}
	steps := p.Run.Preparation
	require.Len(t, steps, 4)
	for k, s := range steps {
		require.Equal(t, []string{"wait", "wait", "reset", "reset"}[k], s.Step)
		require.Equal(t, o.URLs[k%2], s.URL)
		require.Equal(t, measure.PreparationStep{Step: s.Step, URL: s.URL, Attempts: 1, Seconds: s.Seconds, Outcome: "done"}, s)
	}
	require.Len(t, p.records, p.Requests, "no record of the preparation")
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	require.Equal(t, steps, info.Preparation)
}

// Without the options a run neither waits nor resets.
func TestNothingIsPreparedUnlessAskedFor(t *testing.T) {
	server, url := preparedMock(t, nil)
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	require.Nil(t, p.Run.Preparation)
	require.NotContains(t, server.requests(), resetPath)
	require.Len(t, server.requests(), p.Requests)
}

func TestWaitForTheModel(t *testing.T) {
	for name, test := range map[string]struct {
		mode     ReadyMode
		statuses map[string][]int
		model    string // "": mock
		want     []string
		attempts int
		why, try string // "": the model is served
	}{
		"inference":       {statuses: map[string][]int{completions: {503, 404}}, want: []string{completions, completions, completions}, attempts: 3},
		"models":          {mode: ReadyByModels, statuses: map[string][]int{models: {500}}, want: []string{models, models}, attempts: 2},
		"both":            {mode: ReadyByBoth, statuses: map[string][]int{completions: {429}}, want: []string{models, completions, models, completions}, attempts: 2},
		"wrong key":       {statuses: map[string][]int{completions: {401}}, want: []string{completions, models}, attempts: 1, why: "wait: URL: 401: not for Bearer [API key]", try: "--api-key-env NAME"},
		"wrong key, list": {mode: ReadyByModels, statuses: map[string][]int{models: {403}}, want: []string{models}, attempts: 1, why: "wait: URL: 403: not for Bearer [API key]", try: "--api-key-env NAME"},
		"refused":         {mode: ReadyByModels, statuses: map[string][]int{models: {410}}, want: []string{models}, attempts: 1, why: "wait: URL: 410: GET /v1/models: not for Bearer [API key]", try: "again without --wait-ready"},
		"bad list":        {mode: ReadyByModels, statuses: map[string][]int{models: {400}}, want: []string{models}, attempts: 1, why: "wait: URL: 400: GET /v1/models: not for Bearer [API key]", try: "again without --wait-ready"},
		"never":           {statuses: map[string][]int{completions: {503, 503, 503}}, want: []string{completions, completions, completions, models}, attempts: 3, why: "wait: URL: 503: POST /v1/completions: not for Bearer [API key]: gave up after 3 attempts in 10.0 s", try: "a longer --wait-ready"},
		"not in the list": {mode: ReadyByModels, model: "other", want: []string{models, models, models}, attempts: 3, why: `wait: URL: 404: model "other" is not served here: it has "mock": gave up after 3 attempts`, try: "a longer --wait-ready"},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := preparedMock(t, test.statuses)
			o := optionsFor(t, cachetest.Demo(t), url)
			o.Readiness, o.Model, o.APIKey = Readiness{Timeout: 12 * time.Second, Mode: test.mode}, "mock", "very-secret"
			if test.model != "" {
				o.Model = test.model
			}
			p, said := preparationFor(t, o)
			err := p.wait(t.Context())
			require.Equal(t, test.want, server.requests())
			require.Len(t, p.steps, 1)
			require.Equal(t, test.attempts, p.steps[0].Attempts)
			if test.why == "" {
				require.NoError(t, err)
				require.Equal(t, fmt.Sprintf("wait: %s serves \"mock\": %d attempts in %.1f s", url, test.attempts, p.steps[0].Seconds), (*said)[len(*said)-1])
				return
			}
			var refused *PreflightError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, strings.ReplaceAll(err.Error(), url, "URL"), test.why)
			require.Contains(t, refused.Hint, test.try)
			require.Equal(t, refused.Reason, p.steps[0].Error)
			require.NotContains(t, err.Error()+strings.Join(*said, ""), "very-secret")
		})
	}
}

// What is no list of models will not become one.
func TestWaitForAListThatIsNone(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Readiness = Readiness{Timeout: time.Minute, Mode: ReadyByModels}
	p, _ := preparationFor(t, o)
	require.ErrorContains(t, p.wait(t.Context()), ": 200: GET /v1/models: the answer is not a list of models: want an object with data")
	require.Equal(t, "refused", p.steps[0].Outcome)
}

// Several servers share one instant at which the wait ends. A URL that is named twice is asked once.
func TestWaitForSeveralServers(t *testing.T) {
	_, first := preparedMock(t, map[string][]int{completions: {503, 503}})
	second, secondURL := preparedMock(t, map[string][]int{completions: {503, 503}})
	o := optionsFor(t, cachetest.Demo(t), first)
	o.URLs = append(o.URLs, first, secondURL)
	o.Readiness = Readiness{Timeout: 12 * time.Second}
	p, _ := preparationFor(t, o)
	err := p.wait(t.Context())
	require.ErrorContains(t, err, secondURL+": 503")
	require.Len(t, p.steps, 2)
	require.Equal(t, []int{3, 1}, []int{p.steps[0].Attempts, p.steps[1].Attempts}, "at 0, 5 and 10 s; at 10 s")
	require.Equal(t, []string{completions, models}, second.requests())
}

// A server that does not run is tried again until the time is over.
func TestWaitWithoutAServer(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Readiness = Readiness{Timeout: 12 * time.Second}
	p, said := preparationFor(t, o)
	err := p.wait(t.Context())
	require.ErrorContains(t, err, "refused: gave up after 3 attempts in 10.0 s")
	require.Contains(t, err.(*PreflightError).Hint, "start the server")
	require.Len(t, *said, 1)
	require.Contains(t, (*said)[0], "refused: trying again for 12s at most")
	require.Equal(t, "timeout", p.steps[0].Outcome)
}

// tardyPauses is a pauseClock on which every reading takes time.
type tardyPauses struct{ virtualPauses }

func (c *tardyPauses) now() time.Duration {
	c.at += 7 * time.Second
	return c.at
}

// A server for which no time is left is not said to have been silent.
func TestWaitWithoutAnAttempt(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Readiness = Readiness{Timeout: 12 * time.Second}
	p, _ := preparationFor(t, o)
	p.clock = &tardyPauses{}
	require.EqualError(t, p.wait(t.Context()), "wait: "+unreachable+": no time was left for an attempt: gave up after 0 attempts in 14.0 s")
}

func TestResetOfTheCache(t *testing.T) {
	for name, test := range map[string]struct {
		url      string // behind that of the server
		path     string
		statuses map[string][]int
		want     []string
		why, try string // "": it is reset
	}{
		"done":           {want: []string{resetPath}},
		"of an API":      {url: "/v1", want: []string{resetPath}},
		"of an endpoint": {url: "/v1/chat/completions", want: []string{resetPath}},
		"busy":           {statuses: map[string][]int{resetPath: {503, 423}}, want: []string{resetPath, resetPath, resetPath}},
		"another path":   {path: "/v1/chat/completions", want: []string{chat}, why: "reset: URL: 400: POST /v1/chat/completions:", try: "without --reset-cache"},
		"no such path":   {path: "flush_cache", want: []string{"POST /flush_cache"}, why: "reset: URL: 404: POST /flush_cache: 404 Not Found", try: "--reset-cache-path PATH"},
		"wrong key":      {statuses: map[string][]int{resetPath: {401}}, want: []string{resetPath}, why: "reset: URL: 401: POST /reset_prefix_cache: not for Bearer [API key]", try: "--api-key-env"},
		"always busy": {statuses: map[string][]int{resetPath: {409, 409, 409, 409, 409, 409, 409, 409, 409, 409}}, want: strings.Split(strings.Repeat(resetPath+",", 9)+resetPath, ","),
			why: "gave up after 10 attempts in 55.0 s", try: "without --reset-cache"},
	} {
		t.Run(name, func(t *testing.T) {
			server, url := preparedMock(t, test.statuses)
			o := optionsFor(t, cachetest.Demo(t), url+test.url)
			o.CacheReset, o.APIKey = CacheReset{Enabled: true, Path: test.path}, "very-secret"
			p, said := preparationFor(t, o)
			err := p.reset(t.Context())
			require.Equal(t, test.want, server.requests())
			require.Len(t, p.steps, 1)
			require.Equal(t, len(test.want), p.steps[0].Attempts)
			require.NotContains(t, fmt.Sprint(err, *said), "very-secret")
			if test.why == "" {
				require.NoError(t, err)
				require.Contains(t, (*said)[len(*said)-1], "has emptied its prefix cache")
				return
			}
			var refused *PreflightError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, strings.ReplaceAll(err.Error(), url, "URL"), test.why)
			require.Contains(t, refused.Hint, test.try)
		})
	}
}

// A run that asked for a reset and does not get it sends no request, and its results say why.
//
// Covers T-58.
func TestRunWithoutItsReset(t *testing.T) {
	server, url := preparedMock(t, map[string][]int{resetPath: {404}})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.CacheReset.Enabled = true
	s, err := Run(context.Background(), o)
	var refused *PreflightError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, measure.PreparationReset, refused.Step)
	require.Equal(t, []string{resetPath}, server.requests())
	require.Zero(t, s.Requests)
	require.Equal(t, "refused", s.Run.Preparation[0].Outcome)
	var table strings.Builder
	require.NoError(t, s.WriteTable(&table, 0))
	require.Contains(t, table.String(), "reset       "+url+": 404: POST /reset_prefix_cache: ")
	require.NoDirExists(t, o.Out)
}

// An interrupt ends a wait at once, in an attempt and between two, and writes no results.
func TestPreparationIsInterrupted(t *testing.T) {
	for name, set := range map[string]func(o *Options){
		"wait":  func(o *Options) { o.Readiness = Readiness{Timeout: 3 * time.Hour, Interval: time.Hour} },
		"reset": func(o *Options) { o.CacheReset.Enabled = true },
	} {
		for _, hangs := range []bool{true, false} {
			t.Run(fmt.Sprint(name, hangs), func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if hangs {
						_, _ = io.Copy(io.Discard, r.Body) // or the end of the connection is not noticed
						cancel()
						<-r.Context().Done()
					}
					w.WriteHeader(503)
				}))
				o := optionsFor(t, cachetest.Demo(t), url)
				set(&o)
				if !hangs { // the line about the failed attempt comes before the pause
					o.Notice = func(string) { cancel() }
				}
				s, err := Run(ctx, o)
				require.ErrorIs(t, err, context.Canceled)
				require.Nil(t, s)
				require.NoDirExists(t, o.Out)
			})
		}
	}
}
