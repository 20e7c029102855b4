package measure

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadInfoChecksServiceLevels(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"s","of_each":true}`:         "",
		`{"metric":"ttft","statistic":"p95","sign":">=","limit":0.05,"unit":"s","of_each":false}`: "",
		`{"metric":"tftt","statistic":"","sign":"<","limit":2,"unit":"s","of_each":true}`:         `slo[0]: "tftt<2s": no metric "tftt"`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"","of_each":true}`:          `slo[0]: "ttft<2": "2": want a time with its unit`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"s","of_each":false}`:        `slo[0]: "ttft<2s": no such condition`,
		`{"metric":"ttft","statistic":"","sign":"!","limit":2,"unit":"s","of_each":true}`:         `slo[0]: "ttft!2s": want NAME<VALUE`,
		`{"metric":"error-rate","statistic":"","sign":"<","limit":-1,"unit":"","of_each":false}`:  `slo[0]: "error-rate<-1": "-1": want a share`,
		`{"metric":"ttft","statistic":"","sign":"<","limit":1e300,"unit":"s","of_each":true}`:     `slo[0]: `,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, RunFile), []byte(`{"slo":[`+text+`]}`), 0o600))
		_, err := ReadInfo(dir)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
	}
}
