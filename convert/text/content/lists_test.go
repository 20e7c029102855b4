package content

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What Lists make of a list is what a reader of nothing but it makes, whatever lists came before.
func TestLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, numbers, calls := &Lists{}, map[string]int32{}, 0
		number := func(v Raw) (int32, error) {
			calls++
			if _, ok := numbers[string(v)]; !ok {
				numbers[string(v)] = int32(len(numbers))
			}
			return numbers[string(v)], nil
		}
		element := rapid.OneOf(rapid.StringMatching(`\{"role":"(user|é)","content":"[a-c}\n\\"x]{0,9}"\}`).Filter(func(s string) bool { return json.Valid([]byte(s)) }),
			rapid.SampledFrom([]string{`{"a":"\ud83d\ude00}"}`, `{"a":"\ud83d"}`, `1`, `12`, `"}"`, `{}`, `[1,{}]`, `{"long":"` + strings.Repeat("x", 9000) + `"}`}))
		var lists [][]string
		for range rapid.IntRange(1, 30).Draw(t, "lists") {
			var list []string
			if len(lists) > 0 {
				from := lists[rapid.IntRange(0, len(lists)-1).Draw(t, "from")]
				list = append(list, from[:rapid.IntRange(0, len(from)).Draw(t, "kept")]...)
			}
			list = append(list, rapid.SliceOfN(element, 0, 4).Draw(t, "new")...)
			lists = append(lists, list)
			raw := "[" + strings.Join(list, rapid.SampledFrom([]string{",", " , "}).Draw(t, "comma")) + "]"
			broken := rapid.IntRange(0, 9).Draw(t, "broken") == 0
			if broken {
				raw = rapid.SampledFrom([]string{raw[:len(raw)-1], raw + "]", raw[:len(raw)-1] + ",]", "{" + raw[1:], raw + " x", ""}).Draw(t, "how")
			}
			v := Raw(raw)
			if rapid.Bool().Draw(t, "quoted") || broken {
				v, _ = json.Marshal(raw)
			}
			ids, ok, err := s.Read(v, number)
			require.NoError(t, err)
			require.Equal(t, json.Valid([]byte(raw)) && raw[0] == '[', ok, raw)
			if !ok {
				continue
			}
			require.Len(t, ids, len(list))
			for k, e := range list {
				require.Equal(t, numbers[e], ids[k])
			}
		}
	})
}

// A list that begins like one before costs what is new.
func TestListsReadWhatIsNew(t *testing.T) {
	for _, quoted := range []bool{false, true} {
		s, read := &Lists{}, 0
		message := func(Raw) (int32, error) { read++; return int32(read), nil }
		var lists [3][]string // of three sessions, in turn
		for k := range 300 {
			list := &lists[k%3]
			*list = append(*list, `{"role":"user","content":"`+strings.Repeat("ab\n", k)[:k]+`"}`)
			raw := "[" + strings.Join(*list, ",") + "]"
			raw = strings.ReplaceAll(raw, "\n", `\n`)
			v := Raw(raw)
			if quoted {
				v, _ = json.Marshal(raw)
			}
			ids, ok, err := s.Read(v, message)
			require.True(t, ok)
			require.NoError(t, err)
			require.Len(t, ids, k/3+1)
		}
		assert.LessOrEqual(t, read, 310, "of 300 new messages; the first lists share half with nothing")
	}
}

// An error of a message is the caller's, and the list is not remembered.
func TestListsOfFailures(t *testing.T) {
	s := &Lists{}
	_, ok, err := s.Read(Raw(`[{"a":1},{"b":2}]`), func(Raw) (int32, error) { return 0, ErrNoRole })
	require.ErrorIs(t, err, ErrNoRole)
	require.False(t, ok)
	ids, ok, err := s.Read(Raw(`[{"a":1},{"b":2}]`), func(Raw) (int32, error) { return 7, nil })
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []int32{7, 7}, ids)
	for _, v := range []string{``, `null`, `{}`, `5`, `true`} {
		_, ok, err := s.Read(Raw(v), nil)
		require.NoError(t, err)
		require.False(t, ok)
	}
}

// Lists remember no more than a bound of bytes, and the latest list.
func TestListsForget(t *testing.T) {
	s := &Lists{}
	for k := range 12 {
		_, ok, _ := s.Read(Raw(`[{"`+strings.Repeat(string(rune('a'+k%26)), 4<<20+k)+`":1}]`), func(Raw) (int32, error) { return 0, nil })
		require.True(t, ok)
		size := 0
		for _, l := range s.recent {
			size += len(l.raw) + len(l.text)
		}
		require.LessOrEqual(t, size, keptBytes+2*(5<<20))
	}
	for k := range 2 * keptLists {
		_, _, _ = s.Read(Raw(`[{"`+string(rune('a'+k))+`":1}]`), func(Raw) (int32, error) { return 0, nil })
		require.LessOrEqual(t, len(s.recent), keptLists)
	}
}
