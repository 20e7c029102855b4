package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

func TestFileVectors(t *testing.T) {
	list, err := fixtures.Weka("files")
	require.NoError(t, err)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			in := decode[struct {
				Files map[string]json.RawMessage
				Path  string
			}](t, string(v.In))
			want := decode[struct {
				OK  bool
				IDs []string
			}](t, string(v.Want))
			dir := t.TempDir()
			for name, content := range in.Files {
				if strings.HasPrefix(string(content), `"`) { // text rather than an object
					content = json.RawMessage(decode[string](t, string(content)))
				}
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o666))
			}
			o := options(t, filepath.Join(dir, in.Path))
			r, err := Convert(t.Context(), o)
			if !want.OK {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			c := openResult(t, o, r)
			ids := []string{}
			for i := range c.Structure.Traces.Len() {
				ids = append(ids, c.Structure.Traces.At(i).ID)
			}
			assert.Equal(t, want.IDs, ids)
		})
	}
}
