package page

import (
	"bytes"
	_ "embed"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/sample.js
var sampleCode string

// samplePage is a page of made-up requests: a load that rises and falls, latencies of a heavy tail.
func samplePage(requests int) *Page {
	draw := rand.New(rand.NewPCG(1, 2))
	var start, end, ttft, prompt, cached []float64
	kinds, failures := []string{}, []string{}
	times := make([]float64, requests)
	for i := range times {
		times[i] = math.Round((draw.Float64()*320-20)*1e6) / 1e6
	}
	slices.Sort(times)
	for _, at := range times {
		first := math.Round(math.Exp(draw.NormFloat64()*0.6-0.8)*1e6) / 1e6
		start, end, ttft = append(start, at), append(end, at+first*6), append(ttft, first)
		prompt = append(prompt, math.Round(math.Exp(draw.NormFloat64()+9)))
		cached = append(cached, math.Round(prompt[len(prompt)-1]*draw.Float64()))
		kinds = append(kinds, []string{"main session", "subagent"}[draw.IntN(2)])
		failures = append(failures, []string{"", "", "", "timeout", "http_5xx"}[draw.IntN(5)])
	}
	return &Page{Kind: "sample", Title: "A sample of <b>everything</b>", Tables: []Table{{Name: "requests", Columns: []Column{
		Floats("start", "s", start), Floats("end", "s", end), Floats("ttft", "s", ttft), Floats("prompt", "tokens", prompt), Floats("cached", "tokens", cached),
		Texts("kind", kinds), Texts("failure", failures)}}}}
}

// sampleHTML is the page with the code that draws its kind, which has a heat map as runs do.
func sampleHTML(t require.TestingT, p *Page) string {
	var b bytes.Buffer
	require.NoError(t, Write(&b, p))
	heat, err := sources.ReadFile("js/run/heat.js")
	require.NoError(t, err)
	return strings.Replace(b.String(), "</head>", "<script>\n"+string(heat)+sampleCode+"</script>\n</head>", 1)
}
