package flow

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/apache/beam/sdks/v2/go/container/tools"
	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/harness"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/util/grpcx"

	"github.com/randfeat/randfeat/beam/internal/store"
)

// Worker runs a worker if args are the arguments of one, and reports whether they were. It accepts the arguments
// that runners pass to the command of --environment_type=PROCESS, and those of the boot program of Beam's
// containers.
//
// Beam's boot program fetches a copy of the worker for every process, never removes it, and keeps waiting after the
// work is over. This worker is the program itself, which every machine can read where the tables are, and it ends
// with the runner.
func Worker(ctx context.Context, args []string) (bool, error) {
	has := func(name string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, name+"=") })
	}
	switch {
	case has("--worker"):
		store.SweepTemp()
		flag.CommandLine.Parse(args)
		beam.Init() // does not return
		return true, nil
	case !has("--provision_endpoint"):
		return false, nil
	}
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	id, provision := f.String("id", "", ""), f.String("provision_endpoint", "", "")
	for _, name := range []string{"logging_endpoint", "artifact_endpoint", "control_endpoint", "semi_persist_dir"} {
		f.String(name, "", "") // accepted and ignored: the provisioning service tells the same
	}
	if err := f.Parse(args); err != nil {
		return true, err
	}
	store.SweepTemp()
	beam.Init()
	ctx = grpcx.WriteWorkerID(ctx, *id)
	info, err := tools.ProvisionInfo(ctx, *provision)
	if err != nil {
		return true, fmt.Errorf("worker %s: %w", *id, err)
	}
	return true, harness.MainWithOptions(ctx, info.GetLoggingEndpoint().GetUrl(), info.GetControlEndpoint().GetUrl(),
		harness.Options{StatusEndpoint: info.GetStatusEndpoint().GetUrl(),
			RunnerCapabilities: info.GetRunnerCapabilities()})
}
