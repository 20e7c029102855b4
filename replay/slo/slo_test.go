package slo

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

var known = []Metric{
	{Name: "ttft", Unit: Seconds, OfEach: true}, {Name: "output_tokens", Unit: Tokens, OfEach: true},
	{Name: "request_rate", Unit: Rate, MoreIsBetter: true}, {Name: "error-rate", Unit: Share},
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Condition{
		"ttft<2s":              {"ttft", "", Less, 2, Seconds, true},
		"ttft <= 1m0.5s":       {"ttft", "", AtMost, 60.5, Seconds, true},
		"ttft.p95<50ms":        {"ttft", "p95", Less, 0.05, Seconds, false},
		"output_tokens>=7":     {"output_tokens", "", AtLeast, 7, Tokens, true},
		"output_tokens.mean>7": {"output_tokens", "mean", More, 7, Tokens, false},
		"request_rate>0.25":    {"request_rate", "", More, 0.25, Rate, false},
		"error-rate<1%":        {"error-rate", "", Less, 0.01, Share, false},
	} {
		c, err := Parse(text, known)
		require.NoError(t, err, text)
		require.Equal(t, want, c, text)
		require.NoError(t, c.Check(known), text)
		data, err := json.Marshal(c)
		require.NoError(t, err)
		var read Condition
		require.NoError(t, json.Unmarshal(data, &read))
		require.Equal(t, c, read)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s",
		"ttft=2s":            "want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s",
		"<2s":                `no metric "": want one of ttft, output_tokens, request_rate, error-rate`,
		"tftt<2s":            `no metric "tftt": want one of ttft, output_tokens, request_rate, error-rate`,
		"error_rate<1":       `no metric "error_rate": did you mean error-rate?`,
		"ttft.p95x<2s":       `no statistic "p95x": want one of mean, p50, p75, p90, p95, p99, max`,
		"ttft.<2s":           `no statistic "": want one of mean, p50, p75, p90, p95, p99, max`,
		"request_rate.p95<2": "request_rate.p95: a run has one request_rate: leave out .p95",
		"ttft<2":             `"2": want a time with its unit, such as 2s or 50ms`,
		"ttft<-2s":           `"-2s": want a time with its unit, such as 2s or 50ms`,
		"error-rate<x":       `"x": want a share, such as 0.01 or 1%`,
		"request_rate<5%":    `"5%": want a number`,
		"request_rate<Inf":   `"Inf": want a number`,
	} {
		_, err := Parse(text, known)
		require.EqualError(t, err, want, text)
	}
}

func TestHolds(t *testing.T) {
	for sign, want := range map[Sign][3]bool{Less: {true, false, false}, AtMost: {true, true, false}, More: {false, false, true}, AtLeast: {false, true, true}} {
		c := Condition{Sign: sign, Limit: 2}
		require.Equal(t, want, [3]bool{c.Holds(1), c.Holds(2), c.Holds(3)}, "%s", sign)
		require.False(t, c.Holds(math.NaN()), "%s", sign)
	}
}

func TestFigures(t *testing.T) {
	_, err := ParseFigure("ttft.p99", known)
	require.NoError(t, err)
	for statistic, want := range map[string]float64{"p50": 50, "p99": 99, "max": 100} {
		q, ok := Quantile(statistic)
		require.True(t, ok, statistic)
		require.Equal(t, want, q)
	}
	for _, word := range []string{"", "mean", "95", "p", "p101", "p-1", "pNaN", "median"} {
		_, ok := Quantile(word)
		require.False(t, ok, word)
	}
	_, err = ParseFigure("ttft", known)
	require.EqualError(t, err, "ttft: want a statistic of it, such as ttft.p95")
	for v, want := range map[float64]string{0: "0 s", 1.84: "1.84 s", 0.0415: "41.5 ms", 0.0000123: "12.3 us", 12345.6: "12346 s"} {
		require.Equal(t, want, Seconds.Format(v))
	}
	require.Equal(t, "0.5 %", Share.Format(0.005))
}
