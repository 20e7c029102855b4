package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/mock"
)

// kubernetesJob is what a test needs of an Indexed Job.
type kubernetesJob struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		CompletionMode           string `yaml:"completionMode"`
		Completions, Parallelism int
		Template                 struct {
			Spec struct {
				Subdomain  string
				Containers []kubernetesContainer
			}
		}
	}
}

type kubernetesContainer struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			FieldRef struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
}

// readKubernetesJob returns the one Job of a manifest of contrib/kubernetes, edited: each text is replaced by the one after it.
func readKubernetesJob(t *testing.T, name string, edits ...string) (job kubernetesJob) {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("../../contrib/kubernetes", name))
	require.NoError(t, err)
	for k := 0; k < len(edits); k += 2 {
		require.Contains(t, string(manifest), edits[k], name)
	}
	documents := yaml.NewDecoder(strings.NewReader(strings.NewReplacer(edits...).Replace(string(manifest))))
	for job.Kind != "Job" {
		job = kubernetesJob{}
		require.NoError(t, documents.Decode(&job), name)
	}
	require.Equal(t, "Indexed", job.Spec.CompletionMode)
	require.Equal(t, job.Spec.Completions, job.Spec.Parallelism, "all pods run at a time")
	require.Len(t, job.Spec.Template.Spec.Containers, 1)
	return job
}

// environment is that of a pod: what the kubelet sets, and what the manifest does.
func (j *kubernetesJob) environment(t *testing.T, pod int) (list []string, lookup func(string) string) {
	fields := map[string]string{"metadata.labels['batch.kubernetes.io/controller-uid']": "0b1d7a6e-45a8-4b0e-9d4c-4f4f5b0f6c11"}
	set := map[string]string{"JOB_COMPLETION_INDEX": fmt.Sprint(pod), "HOSTNAME": fmt.Sprintf("%s-%d", j.Metadata.Name, pod)}
	lookup = func(name string) string { return set[name] }
	for _, v := range j.Spec.Template.Spec.Containers[0].Env {
		if path := v.ValueFrom.FieldRef.FieldPath; path != "" {
			require.Contains(t, fields, path)
			v.Value = fields[path]
		}
		set[v.Name] = expandKubernetes(t, v.Value, lookup)
	}
	for name, value := range set {
		list = append(list, name+"="+value)
	}
	return list, lookup
}

// expandKubernetes replaces $(NAME), as the kubelet does.
func expandKubernetes(t *testing.T, text string, lookup func(string) string) string {
	return regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(text, func(s string) string {
		value := lookup(s[2 : len(s)-1])
		require.NotEmpty(t, value, s)
		return value
	})
}

// run runs all pods of a Job as processes, whose environment is that of their pod and more. It returns what each prints, and fails the
// test unless all exit with status 0.
func (j *kubernetesJob) run(t *testing.T, more ...string) (outs []string) {
	t.Helper()
	outs = make([]string, j.Spec.Completions)
	errs := make([]error, len(outs))
	var pods sync.WaitGroup
	for k := range outs {
		environment, lookup := j.environment(t, k)
		require.Equal(t, fmt.Sprint(len(outs)), lookup("AGENTX_PARTS"))
		var args []string
		for _, a := range j.Spec.Template.Spec.Containers[0].Args {
			args = append(args, expandKubernetes(t, a, lookup))
		}
		c := exec.CommandContext(t.Context(), "agentx", args...)
		c.Env = append(environment, more...)
		var out, log bytes.Buffer
		c.Stdout, c.Stderr = &out, &log
		pods.Go(func() {
			if err := c.Run(); err != nil {
				errs[k] = fmt.Errorf("pod %d: %w: %s", k, err, log.String())
			}
			outs[k] = out.String()
		})
	}
	pods.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return outs
}

// Every pod of the Job that converts prints the path of the one dataset, which is that of one builder.
func TestKubernetesConvert(t *testing.T) {
	data := t.TempDir()
	job := readKubernetesJob(t, "convert.yaml", "/data/traces", "demo", "/data", data)
	want := convertDemo(t, filepath.Join(t.TempDir(), "alone"))
	for _, out := range job.run(t) {
		require.Equal(t, filepath.Join(data, "agentx", "dataset", filepath.Base(want)), lastLine(out))
	}
}

// convertDemo converts the embedded corpus alone, and returns the path of the dataset.
func convertDemo(t *testing.T, cache string) string {
	var out, log strings.Builder
	require.Zero(t, run([]string{"convert", "demo", "--quiet", "--cache", cache}, nil, &out, &log), "%s", &log)
	return lastLine(out.String())
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// The pods of the Job that replays meet, play one load, and their report is that of the whole load.
func TestKubernetesReplay(t *testing.T) {
	data := t.TempDir()
	dataset := convertDemo(t, filepath.Join(data, "agentx"))
	m := mock.New(mock.Config{})
	server := httptest.NewServer(m)
	defer server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().String()
	require.NoError(t, l.Close())

	edits := []string{"/data/agentx/dataset/KEY", dataset, "/data", data, "http://SERVER:8000", server.URL, "--duration=10m", "--requests=240",
		"agentx-replay-0.agentx-replay:7878", free}
	job := readKubernetesJob(t, "replay.yaml", edits...)
	manifest := readKubernetesJob(t, "replay.yaml")
	_, lookup := manifest.environment(t, 0)
	require.Equal(t, fmt.Sprintf("%s-0.%s:7878", manifest.Metadata.Name, manifest.Spec.Template.Spec.Subdomain), lookup("AGENTX_MEET"))

	job.run(t, "AGENTX_ASAP=true", "AGENTX_NO_PREFLIGHT=true", "AGENTX_NO_CALIBRATE=true", "AGENTX_SCRAPE=off")
	var out, log strings.Builder
	require.Zero(t, run([]string{"report", filepath.Join(data, "results", lookup("JOB_UID")), "--json"}, nil, &out, &log), "%s", &log)
	var summary struct {
		Requests     int64
		OutputTokens int64 `json:"output_tokens"`
		Parts        struct {
			Used   int
			Clocks struct{ Uncertainty *float64 }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &summary))
	require.Equal(t, job.Spec.Completions, summary.Parts.Used)
	require.NotNil(t, summary.Parts.Clocks.Uncertainty, "the parts have compared their clocks")
	require.Equal(t, m.Stats().Requests, summary.Requests)
	require.Equal(t, m.Stats().OutputTokens, summary.OutputTokens)
}
