package measure

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// otherCase finds characters that a key of another letter case has.
var otherCase = regexp.MustCompile(`[A-ZſK]|\\u`)

// parseRecord reads what encoding/json reads.
func FuzzParseRecord(f *testing.F) {
	for _, r := range []Record{example(), {}, *good(1, 2, 0, 1, 2, 3), *bad(CancelledAtEnd, "cancelled")} {
		f.Add(r.AppendJSON(nil))
	}
	for _, text := range []string{
		`{}`, ``, `null`, `[]`, `{"lane":1`, `{"lane":1}x`, ` { "lane" : 1 , "unknown" : [ { "lane" : 2 } ] } `, `{"lane":1.5}`, `{"lane":1e2}`,
		`{"lane":99999999999999999999}`, `{"due":1e400}`, `{"due":"1"}`, `{"trace":5}`, `{"reused":1}`, `{"lane":null,"error":null,"trace":null}`,
		`{"error":{}}`, `{"error":{"message":"\u00e9\ud800","code":500}}`, `{"error":5}`, `{"lane":1,"lane":2}`, `{"source_inner":0}`,
		`{"error":{"code":1},"error":{"message":"m"}}`, `{"error":{"code":1},"error":null}`, `{"source_inner":1,"source_inner":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var got, want Record
		err, wantErr := parseRecord(line, &got), json.Unmarshal(line, &want)
		if strings.TrimSpace(string(line)) == "null" || otherCase.Match(line) {
			return // which encoding/json takes for an empty record, or for the key of a field
		}
		require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}
