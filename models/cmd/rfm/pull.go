package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat/internal/suggest"
	"github.com/randfeat/randfeat/models/hub"
)

func pullCommand(e *env) *cobra.Command {
	var opt hub.Options
	cmd := &cobra.Command{
		Use:   "pull NAME",
		Short: "Download a model from the Hugging Face hub",
		Long: `pull downloads the files that rfm reads into a folder of this user, and compares them with the hashes that the server
states. A download that was cut off goes on where it ended. Afterwards the name stands for the path in every command,
its last part alone too. The folder is RFM_MODELS (default: rfm in the user's folder of caches); HF_ENDPOINT names another server,
HF_TOKEN has the token for models that need one.`,
		Example: `  rfm pull sentence-transformers/all-MiniLM-L6-v2
  rfm embed all-MiniLM-L6-v2 texts.txt
  rfm pull HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF/smollm2-1.7b-instruct-q4_k_m.gguf`,
		Args: suggest.Args("a name", 1, 1),
		RunE: do(func(cmd *cobra.Command, args []string) error {
			step := int64(-1)
			opt.Progress = func(file string, done, of int64) {
				if at := 10 * done / of; of > 1<<20 && at != step {
					step = at
					e.note("%s: %d %% of %.1f MB", file, 10*at, float64(of)/1e6)
				}
			}
			path, err := hub.Pull(cmd.Context(), args[0], opt)
			if errors.Is(err, hub.ErrName) {
				return misuse{err}
			}
			if err != nil {
				return err
			}
			if e.json {
				return e.object(map[string]string{"name": args[0], "path": path})
			}
			_, err = fmt.Fprintln(e.stdout, path)
			return err
		}),
	}
	cmd.Flags().StringVar(&opt.Revision, "revision", "", "branch, tag or commit (default: main)")
	return cmd
}

func listCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the models that were downloaded",
		Args:  suggest.NoArgs,
		RunE: do(func(*cobra.Command, []string) error {
			list, err := hub.List()
			for _, m := range list {
				if e.json {
					err = errors.Join(err, e.object(m))
				} else {
					fmt.Fprintf(e.stdout, "%8.1f MB  %s\n", float64(m.Bytes)/1e6, printable(m.Name))
				}
			}
			return err
		}),
	}
}

func removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Delete a model that was downloaded",
		Args:  suggest.Args("a name", 1, 1),
		RunE:  do(func(_ *cobra.Command, args []string) error { return hub.Remove(args[0]) }),
	}
}

// modelPath returns the path of a model: a file or folder, or else one that was downloaded under this name.
func modelPath(name string) (string, error) {
	_, err := os.Stat(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return name, nil
	}
	path, pulled := hub.Path(name)
	if pulled == nil {
		return path, nil
	}
	if !errors.Is(pulled, fs.ErrNotExist) {
		return "", pulled
	}
	return "", fmt.Errorf("%w (rfm list shows the models that were downloaded, rfm pull OWNER/NAME downloads one)", err)
}
