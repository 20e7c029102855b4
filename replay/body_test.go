package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

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

// read decodes a body, which may hold nothing that a request does not have.
func read(t *testing.T, data []byte) (r request) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r))
	require.Equal(t, int64(len(data)), d.InputOffset())
	return r
}

// tailOf is the tail of the bodies of a run without options.
func tailOf(t testing.TB, form mmapcache.Encoding, model string) *tail {
	t.Helper()
	tail, conflicts, err := newTail(form, model, Fields{})
	require.NoError(t, err)
	require.Empty(t, conflicts)
	return &tail
}

// written returns the bytes of a body, written twice.
func written(t *testing.T, b *body) []byte {
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

// eachTurn calls f for every turn of a cache, for some of every trace when the time is short.
func eachTurn(t *testing.T, c *mmapcache.Cache, form mmapcache.Encoding, f func(tree *mmapcache.RenderedTrace, turn int)) {
	t.Helper()
	require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{Turn: mmapcache.None}, form, func(tree *mmapcache.RenderedTrace, _, turn int) error {
		if !testing.Short() || turn%4 == 0 {
			f(tree, turn)
		}
		return nil
	}))
}

// contents are the messages of a turn by the slow way.
func contents(tree *mmapcache.RenderedTrace, turn int) []message {
	var p mmapcache.Prompt
	tree.Prompt(turn, &p)
	list := []message{}
	for k, m := range p.Messages {
		list = append(list, message{m.Role.String(), string(p.AppendText(nil, k))})
	}
	return list
}

const someMarker = marker("0123456789ab")

func TestChatBodyHoldsTheMessages(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"code": demoCache(t), "rough": roughCache(t)} {
		t.Run(name, func(t *testing.T) {
			var b body
			turns := 0
			eachTurn(t, c, mmapcache.Text, func(tree *mmapcache.RenderedTrace, turn int) {
				turns++
				plain := contents(tree, turn)
				for k, m := range []marker{"", someMarker, someMarker} {
					b.target = Target(k)
					b.fill(tree, turn, mmapcache.Text, m.text(), tailOf(t, mmapcache.Text, "a \"model\"\n"), tree.Turns[turn].MaxTokens())
					text := ""
					if m != "" {
						text = "[rid:" + string(m) + "]"
					}
					want := inject(plain, text, b.target)
					require.Equal(t, request{
						Messages: &want, Stream: true, Chat: max(1, int(tree.Turns[turn].Out)), Options: streaming{true}, Model: "a \"model\"\n", IgnoreEOS: true,
					}, read(t, written(t, &b)))
				}
			})
			require.GreaterOrEqual(t, turns, 50)
		})
	}
}

func TestIDsBodyHoldsTheTokens(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"code": demoCache(t), "rough": roughCache(t)} {
		t.Run(name, func(t *testing.T) {
			var b body
			var p mmapcache.Prompt
			mark := someMarker.ids(c.Arenas.Marker)
			eachTurn(t, c, mmapcache.IDs, func(tree *mmapcache.RenderedTrace, turn int) {
				tree.Prompt(turn, &p)
				wants := make([][]uint32, 3)
				for target := range wants {
					wants[target] = []uint32{}
					for k, m := range p.Messages {
						first := isUser(m) && !slices.ContainsFunc(p.Messages[:k], isUser)
						if Target(target) == FirstTurnPrefix && first || Target(target) == SystemPrefix && k == 0 {
							wants[target] = append(wants[target], numbers(t, mark)...)
						}
						wants[target] = append(wants[target], p.AppendTokenIDs(nil, k)...)
					}
				}
				require.Len(t, wants[0], int(tree.Turns[turn].In))
				require.Greater(t, len(wants[1]), len(wants[0]))
				for target, want := range wants {
					m := mark
					if target == 0 {
						m = ""
					}
					b.target = Target(target)
					b.fill(tree, turn, mmapcache.IDs, m, tailOf(t, mmapcache.IDs, "m"), tree.Turns[turn].MaxTokens())
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
	for name, c := range map[string]*mmapcache.Cache{"code": demoCache(t), "rough": roughCache(t)} {
		for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
			var b body
			mark := someMarker.text()
			if form == mmapcache.IDs {
				mark = someMarker.ids(c.Arenas.Marker)
			}
			turns := 0
			eachTurn(t, c, form, func(tree *mmapcache.RenderedTrace, turn int) {
				if turns++; turns%5 != 1 {
					return
				}
				b.fill(tree, turn, form, mark, tailOf(t, form, "m"), 1)
				want := written(t, &b)
				for _, limit := range []int{2, 3, 64, 1000, 1 << 30} {
					var got bytes.Buffer
					_, err := b.writeTo(&got, limit)
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, got.Bytes()), "%s, pieces of %d bytes", name, limit)
				}
			})
		}
	}
}

func TestPromptWithoutMessages(t *testing.T) {
	tree := &mmapcache.RenderedTrace{Plan: &mmapcache.Plan{Turns: []mmapcache.Turn{{Last: mmapcache.None}}}}
	for form, want := range map[mmapcache.Encoding]string{
		mmapcache.Text: `{"messages":[],"model":"m","stream":true,"max_completion_tokens":2,"stream_options":{"include_usage":true},"ignore_eos":true}`,
		mmapcache.IDs:  `{"prompt":[],"model":"m","stream":true,"max_tokens":2,"stream_options":{"include_usage":true},"ignore_eos":true}`,
	} {
		b := body{mark: "of the prompt before"}
		b.fill(tree, 0, form, "no message, no marker", tailOf(t, form, "m"), 2)
		require.Equal(t, want, string(written(t, &b)))
	}
}

func TestMessageWithoutTokens(t *testing.T) {
	c := prepare(t, cacheRoot(), traceLine("empty", 0, 64), "code")
	for form, want := range map[mmapcache.Encoding][2]string{
		mmapcache.Text: {`{"messages":[{"role":"user","content":""}],`, `{"messages":[{"role":"user","content":"7,"}],`},
		mmapcache.IDs:  {`{"prompt":[],`, `{"prompt":[7],`},
	} {
		tree, err := c.Render(0, form)
		require.NoError(t, err)
		for k, mark := range []string{"", "7,"} {
			var b body
			b.fill(tree, 0, form, mark, tailOf(t, form, "m"), 2)
			require.True(t, bytes.HasPrefix(written(t, &b), []byte(want[k])))
		}
	}
}

func TestBodyIsUsedAgain(t *testing.T) {
	c := demoCache(t)
	tree, err := c.Render(0, mmapcache.Text)
	require.NoError(t, err)
	var fresh, used body
	used.fill(tree, len(tree.Turns)-1, mmapcache.Text, someMarker.text(), tailOf(t, mmapcache.Text, "a longer name"), 99999)
	for _, b := range []*body{&fresh, &used} {
		b.fill(tree, 0, mmapcache.Text, "", tailOf(t, mmapcache.Text, "m"), 1)
	}
	require.Equal(t, string(written(t, &fresh)), string(written(t, &used)))
}

// failing takes so many bytes and fails then.
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
	c := demoCache(t)
	for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
		tree, err := c.Render(0, form)
		require.NoError(t, err)
		var b body
		b.fill(tree, 8, form, "", tailOf(t, form, "m"), 1)
		for _, room := range []int{0, 1, 500, int(b.Size()) - 1} {
			n, err := b.writeTo(&failing{room}, 100)
			require.ErrorIs(t, err, errFull)
			require.LessOrEqual(t, n, int64(room))
		}
	}
}

func TestAssemblingDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("under the race detector pools forget at random")
	}
	c := demoCache(t)
	for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
		tree, err := c.Render(15, form)
		require.NoError(t, err)
		mark, tail := "mark,", tailOf(t, form, "m")
		b := new(body)
		require.Zero(t, testing.AllocsPerRun(200, func() {
			for turn := range tree.Turns {
				b.fill(tree, turn, form, mark, tail, 100)
				if _, err := b.WriteTo(io.Discard); err != nil {
					t.Error(err)
				}
			}
		}))
	}
}
