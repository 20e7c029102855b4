package scrape

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The last answer of every page counts: sums of counters, the largest of gauges, and what counters have gained since.
func TestNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := []string{
			"# TYPE a_total counter\na_total{x=\"1\"} 3\na_total{x=\"2\"} 4\n# TYPE g gauge\ng{x=\"1\"} -5\ng{x=\"2\"} -2\n# TYPE h summary\nh_sum 1\nh_count 2\n",
			"# TYPE a_total counter\na_total{x=\"1\"} 9\n# TYPE g gauge\ng{x=\"1\"} 1\n# TYPE b_total counter\nb_total 1\n",
		}
		c, err := Start(Options{Pages: []Page{{URL: "http://a/"}, {URL: "http://b/"}}, Transport: answers(func(_ *http.Request, n int) (string, error) {
			return pages[min(n, 1)], nil
		}).transport(), Notice: func(string) {}})
		require.NoError(t, err)
		defer c.Close()
		synctest.Wait()
		before := c.Now()
		assert.Equal(t, Now{map[string]float64{"a": 14}, map[string]float64{"g": -2}}, before)
		c.Mark()
		synctest.Wait()
		now := c.Now() // the second series of each is gone
		assert.Equal(t, Now{map[string]float64{"a": 18, "b": 2}, map[string]float64{"g": 1}}, now)
		assert.Equal(t, Now{map[string]float64{"a": 4, "b": 2}, map[string]float64{"g": 1}}, now.Since(before))
		assert.Zero(t, before.Since(now).Counters["a"])
	})
}
