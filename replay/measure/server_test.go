package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The servers of a run are named with what they tell, those that tell the same together. A server that tells nothing has no words.
func TestServerText(t *testing.T) {
	on, off := true, false
	for _, test := range []struct {
		want string
		list []Server
	}{
		{"", nil},
		{"", []Server{{URL: "http://a"}, {URL: "http://b"}}},
		{"http://a: vllm 0.11.0, prefix caching on", []Server{{URL: "http://a", Software: "vllm", Version: "0.11.0", PrefixCaching: &on}}},
		{"http://a: 0.11.0, prefix caching unknown", []Server{{URL: "http://a", Version: "0.11.0"}}},
		{"http://a, http://c: prefix caching off; http://b", []Server{{URL: "http://a", PrefixCaching: &off}, {URL: "http://b"}, {URL: "http://c", PrefixCaching: &off}}},
		{"a, b, c, d, and 1 more: prefix caching on", []Server{{URL: "a", PrefixCaching: &on}, {URL: "b", PrefixCaching: &on}, {URL: "c", PrefixCaching: &on}, {URL: "d", PrefixCaching: &on}, {URL: "e", PrefixCaching: &on}}},
	} {
		require.Equal(t, test.want, (&Run{Servers: test.list}).ServerText())
	}
}
