package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// request is a body as a server reads it.
type request struct {
	Messages  *[]message `json:"messages"`
	Prompt    *[]uint32  `json:"prompt"`
	Stream    bool       `json:"stream"`
	Chat      int        `json:"max_completion_tokens"`
	Tokens    int        `json:"max_tokens"`
	Options   streaming  `json:"stream_options"`
	Model     string     `json:"model"`
	IgnoreEOS bool       `json:"ignore_eos"`
}

type streaming struct {
	Usage bool `json:"include_usage"`
}

// read decodes a body, which has no field that request lacks.
func read(t *testing.T, data []byte) (r request) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r))
	require.Equal(t, int64(len(data)), d.InputOffset())
	return r
}

// written returns the bytes of a body, written twice.
func written(t *testing.T, b *Body) []byte {
	t.Helper()
	var first, second bytes.Buffer
	n, err := b.WriteTo(&first)
	require.NoError(t, err)
	require.Equal(t, int64(first.Len()), n)
	require.Equal(t, b.Size(), n)
	_, err = b.WriteTo(&second)
	require.NoError(t, err)
	require.True(t, bytes.Equal(first.Bytes(), second.Bytes()), "the second time something else is written")
	return first.Bytes()
}

// eachTurn calls f for every turn of a cache, or for a quarter of them in short tests.
func eachTurn(t *testing.T, c *mmapcache.Cache, endpoint Endpoint, f func(tree *mmapcache.RenderedTrace, turn int)) {
	t.Helper()
	require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{}, endpoint.Encoding(), func(tree *mmapcache.RenderedTrace, _, turn int) error {
		if !testing.Short() || turn%4 == 0 {
			f(tree, turn)
		}
		return nil
	}))
}

// contents returns the messages of a turn, without the fast path of bodies.
func contents(tree *mmapcache.RenderedTrace, turn int) []message {
	var p mmapcache.Prompt
	tree.Prompt(turn, &p)
	list := []message{}
	for k, m := range p.Messages {
		list = append(list, message{m.Role.String(), string(p.AppendText(nil, k))})
	}
	return list
}

const someMarker = Marker("0123456789ab")

// targets are the targets of a resolved marker.
var targets = []MarkerTarget{NoMarker, FirstTurnPrefix, SystemPrefix, FirstTurnSuffix, SystemSuffix}

func TestChatBodyHoldsTheMessages(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"code": cachetest.Demo(t), "split": cachetest.SplitCharacters(t)} {
		t.Run(name, func(t *testing.T) {
			var b Body
			turns := 0
			eachTurn(t, c, ChatCompletions, func(tree *mmapcache.RenderedTrace, turn int) {
				turns++
				plain := contents(tree, turn)
				for _, target := range targets {
					e := encoderOf(t, c, ChatCompletions, "a \"model\"\n", target)
					b.fill(e, tree, turn, someMarker, tree.Turns[turn].MaxTokens())
					want := inject(plain, "[rid:"+string(someMarker)+"]", target)
					require.Equal(t, request{
						Messages: &want, Stream: true, Chat: max(1, int(tree.Turns[turn].Out)), Options: streaming{true}, Model: "a \"model\"\n", IgnoreEOS: true,
					}, read(t, written(t, &b)))
				}
			})
			require.GreaterOrEqual(t, turns, 50)
		})
	}
}

func TestCompletionBodyHoldsTheTokens(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"code": cachetest.Demo(t), "split": cachetest.SplitCharacters(t)} {
		t.Run(name, func(t *testing.T) {
			var b Body
			var p mmapcache.Prompt
			prefix, suffix := numbers(t, someMarker.appendIDs(nil, &c.Arenas.Marker, false)), numbers(t, someMarker.appendIDs(nil, &c.Arenas.Marker, true))
			eachTurn(t, c, Completions, func(tree *mmapcache.RenderedTrace, turn int) {
				tree.Prompt(turn, &p)
				for _, target := range targets {
					want := []uint32{}
					at := slices.IndexFunc(p.Messages, isUser)
					if target == SystemPrefix || target == SystemSuffix {
						at = 0 // the system prompt, or the first user message
					}
					for k := range p.Messages {
						if k == at && (target == FirstTurnPrefix || target == SystemPrefix) {
							want = append(want, prefix...)
						}
						want = p.AppendTokenIDs(want, k)
						if k == at && (target == FirstTurnSuffix || target == SystemSuffix) {
							want = append(want, suffix...)
						}
					}
					if target == NoMarker {
						require.Len(t, want, int(tree.Turns[turn].In))
					} else {
						require.Greater(t, len(want), int(tree.Turns[turn].In))
					}
					b.fill(encoderOf(t, c, Completions, "m", target), tree, turn, someMarker, tree.Turns[turn].MaxTokens())
					require.Equal(t, request{
						Prompt: &want, Stream: true, Tokens: max(1, int(tree.Turns[turn].Out)), Options: streaming{true}, Model: "m", IgnoreEOS: true,
					}, read(t, written(t, &b)))
				}
			})
		})
	}
}

func isUser(m mmapcache.Message) bool { return m.Role == mmapcache.User }

func TestSizeOfThePiecesChangesNoByte(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"code": cachetest.Demo(t), "split": cachetest.SplitCharacters(t)} {
		for _, endpoint := range endpoints {
			var b Body
			encoders := []*Encoder{encoderOf(t, c, endpoint, "m", FirstTurnPrefix), encoderOf(t, c, endpoint, "m", FirstTurnSuffix)}
			turns := 0
			eachTurn(t, c, endpoint, func(tree *mmapcache.RenderedTrace, turn int) {
				if turns++; turns%5 != 1 {
					return
				}
				for _, e := range encoders {
					b.fill(e, tree, turn, someMarker, 1)
					want := written(t, &b)
					for _, limit := range []int{2, 3, 64, 1000, 1 << 30} {
						var got bytes.Buffer
						_, err := b.writeTo(&got, limit)
						require.NoError(t, err)
						require.True(t, bytes.Equal(want, got.Bytes()), "%s, pieces of %d bytes", name, limit)
					}
				}
			})
		}
	}
}

func TestPromptWithoutMessages(t *testing.T) {
	tree := &mmapcache.RenderedTrace{Plan: &mmapcache.Plan{Turns: []mmapcache.Turn{{Last: mmapcache.None}}}}
	c := cachetest.Demo(t)
	for endpoint, want := range map[Endpoint]string{
		ChatCompletions: `{"messages":[],"model":"m","stream":true,"max_completion_tokens":2,"ignore_eos":true,"stream_options":{"include_usage":true}}`,
		Completions:     `{"prompt":[],"model":"m","stream":true,"max_tokens":2,"ignore_eos":true,"stream_options":{"include_usage":true}}`,
	} {
		b := Body{marker: []byte("of the body before")}
		b.fill(encoderOf(t, c, endpoint, "m", FirstTurnPrefix), tree, 0, someMarker, 2)
		require.Equal(t, want, string(written(t, &b)))
	}
}

func TestMessageWithoutTokens(t *testing.T) {
	c := cachetest.Prepare(t, cachetest.TraceLine("empty", 0, 64), "code")
	ids := func(after bool) string {
		return string(bytes.TrimSuffix(someMarker.appendIDs(nil, &c.Arenas.Marker, after), []byte(",")))
	}
	for _, test := range []struct {
		endpoint Endpoint
		target   MarkerTarget
		marker   Marker
		want     string
	}{
		{ChatCompletions, FirstTurnPrefix, "", `{"messages":[{"role":"user","content":""}],`},
		{ChatCompletions, FirstTurnPrefix, someMarker, `{"messages":[{"role":"user","content":"[rid:0123456789ab]\n\n"}],`},
		{ChatCompletions, SystemSuffix, someMarker, `{"messages":[{"role":"user","content":"\n\n[rid:0123456789ab]"}],`},
		{Completions, FirstTurnPrefix, "", `{"prompt":[],`},
		{Completions, SystemPrefix, someMarker, `{"prompt":[` + ids(false) + `],`},
		{Completions, FirstTurnSuffix, someMarker, `{"prompt":[` + ids(true) + `],`},
	} {
		tree, err := c.Render(0, test.endpoint.Encoding())
		require.NoError(t, err)
		var b Body
		b.fill(encoderOf(t, c, test.endpoint, "m", test.target), tree, 0, test.marker, 2)
		require.True(t, bytes.HasPrefix(written(t, &b), []byte(test.want)), test.want)
	}
}

func TestBodyIsReused(t *testing.T) {
	c := cachetest.Demo(t)
	tree, err := c.Render(0, mmapcache.Text)
	require.NoError(t, err)
	var fresh, used Body
	used.fill(encoderOf(t, c, ChatCompletions, "a longer name", FirstTurnPrefix), tree, len(tree.Turns)-1, someMarker, 99999)
	e := encoderOf(t, c, ChatCompletions, "m", NoMarker)
	for _, b := range []*Body{&fresh, &used} {
		b.fill(e, tree, 0, "", 1)
	}
	require.Equal(t, string(written(t, &fresh)), string(written(t, &used)))
}

// failing is a writer that fails after so many bytes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return f.left, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

func TestBodyStopsAtTheFirstError(t *testing.T) {
	c := cachetest.Demo(t)
	for _, endpoint := range endpoints {
		tree, err := c.Render(0, endpoint.Encoding())
		require.NoError(t, err)
		var b Body
		b.fill(encoderOf(t, c, endpoint, "m", NoMarker), tree, 8, "", 1)
		for _, room := range []int{0, 1, 500, int(b.Size()) - 1} {
			n, err := b.writeTo(&failing{room}, 100)
			require.ErrorIs(t, err, errFull)
			require.LessOrEqual(t, n, int64(room))
		}
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools forget at random")
	}
	c := cachetest.Demo(t)
	for _, endpoint := range endpoints {
		tree, err := c.Render(15, endpoint.Encoding())
		require.NoError(t, err)
		for _, target := range targets {
			e := encoderOf(t, c, endpoint, "m", target)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				for turn := range tree.Turns {
					b, err := e.Body(tree, turn, someMarker, 100)
					if err != nil {
						t.Error(err)
					}
					if _, err := b.WriteTo(io.Discard); err != nil {
						t.Error(err)
					}
					b.Release()
				}
			}))
		}
	}
}
