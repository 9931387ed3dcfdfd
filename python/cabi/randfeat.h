/* randfeat.h: the C interface of randfeat.
 *
 * Build the library with "go build -buildmode=c-shared" (or c-archive) in this folder. Functions may be called from any
 * thread, concurrently. The only global setting is rf_threads. The Python package uses this interface; bindings for
 * other languages can use it too.
 *
 * Handles.  Numbers name the objects of the library: maps, tables, jobs, models, predictors, attentions. A handle is
 * never 0 and never used again. Release it with rf_release. An unknown handle is an error, not a crash.
 *
 * Text.  An rf_string belongs to the caller: UTF-8, terminated by 0. An rf_text belongs to the library: free it with
 * rf_free. Pass NULL for an rf_text pointer if you do not want that text.
 *
 * Errors.  A function that can fail returns RF_OK or a kind of error, and writes a message to err.
 *
 * Arrays.  Numbers are not copied: the library reads and writes the caller's memory during a call. Tables and jobs read
 * it after the call too. Keep it valid until the table is released, or until rf_job_wait says that the job is finished.
 *
 * Jobs.  A function with an argument "uint64_t *job" does its work before it returns if job is NULL. Otherwise it
 * starts a job and returns at once: rf_job_wait waits for the job, rf_job_cancel stops it, rf_job_result returns its
 * result.
 *
 * Fork.  After fork without exec, the child must not use a library that its parent has loaded: the threads of the
 * library do not exist there.
 */
#ifndef RANDFEAT_H
#define RANDFEAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef const char *rf_string;
typedef char *rf_text;

/* The version of this interface. A library fits this header if rf_abi() returns it. It grows with every change. */
#define RF_ABI 1

enum {
	RF_OK = 0,
	RF_VALUE = 1,     /* an argument cannot be used */
	RF_INPUT = 2,     /* the rows or columns of a table cannot be used */
	RF_CANCELLED = 3, /* rf_job_cancel was called */
	RF_INTERNAL = 4,  /* a bug in the library; the message has a trace */
	RF_NO_FORM = 5,   /* no closed form is known */
	RF_HANDLE = 6     /* a handle is unknown, released or of another kind of object */
};

/* Element types of arrays. */
enum {
	RF_F32 = 'f', RF_F64 = 'd', RF_BOOL = '?',
	RF_I8 = 'b', RF_U8 = 'B', RF_I16 = 'h', RF_U16 = 'H', RF_I32 = 'i', RF_U32 = 'I', RF_I64 = 'l', RF_U64 = 'L'
};

/* A matrix, or a column (cols = 1): element (i, j) is at data + i*row_stride + j*col_stride bytes. */
typedef struct {
	void *data;
	int64_t rows, cols;
	int64_t row_stride, col_stride; /* bytes; may be 0 or negative */
	int32_t dtype;
} rf_array;

/* A sequence of attention, [batch, head, position, dim]; the last axis is contiguous, strides are in elements. */
typedef struct {
	void *data;
	int64_t batch, heads, length, dim;
	int64_t stride_batch, stride_head, stride_length;
	int32_t dtype; /* RF_F32 */
} rf_seq;

/* The Arrow C stream interface, which rf_table_arrow reads. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
	const char *format, *name, *metadata;
	int64_t flags, n_children;
	struct ArrowSchema **children, *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};
struct ArrowArray {
	int64_t length, null_count, offset, n_buffers, n_children;
	const void **buffers;
	struct ArrowArray **children, *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};
#endif

/* ---- The library */

int32_t rf_abi(void);                  /* RF_ABI of the library */
void rf_version(rf_text *out);         /* {"go", "revision"} */
void rf_free(void *text);              /* frees an rf_text or what rf_model_write wrote; NULL is allowed */
void rf_release(uint64_t handle);      /* releases an object; 0 is allowed */
int64_t rf_live(void);                 /* number of handles not yet released, for tests of leaks */
int32_t rf_threads(int32_t n);         /* limits the threads that compute; 0: no change. Returns the old limit */
void rf_collect(void);                 /* collects garbage and returns free memory to the system */

/* ---- Jobs */

/* Waits at most ms milliseconds. *finished is 1 if the job has ended; the returned status is then that of its work.
 * stage, done and total (any may be NULL) tell the progress; total is 0 if it is unknown. */
int32_t rf_job_wait(uint64_t job, int32_t ms, int32_t *finished, rf_text *stage, int64_t *done, int64_t *total,
	rf_text *err);
void rf_job_cancel(uint64_t job);      /* asks the job to end; it may take a while: wait for it */
/* The result of a finished job: a handle (0 if there is none) and JSON. The handle is returned only once. */
int32_t rf_job_result(uint64_t job, uint64_t *handle, rf_text *json, rf_text *err);

/* ---- Maps and kernels */

/* Draws a map. request: {"spec": SPEC, "features": F, "fit": true}. SPEC is the JSON of "randfeat features --spec".
 * features, if positive, sets the number of projections. fit fits the parameters of the family to queries x and keys y
 * (NULL: x for both). info: {"spec", "dim", "features", "positive", "symmetric"}. */
int32_t rf_map_new(rf_string request, rf_array *x, rf_array *y, uint64_t *map, rf_text *info, rf_text *err);
/* Writes the features of the rows of x, as queries (keys = 0) or keys (keys = 1), into out (rows x features, rows
 * contiguous). Both are RF_F32 or both RF_F64. log_scale, if not NULL, receives one number per row; the features are
 * then divided by its exponential. workers: 0 for all processors. */
int32_t rf_map_apply(uint64_t map, rf_array *x, rf_array *out, double *log_scale, int32_t keys, int32_t workers,
	rf_text *err);
/* The same for one row: dim numbers in x, features numbers in out, both of dtype RF_F32 or RF_F64. The fastest call. */
int32_t rf_map_row(uint64_t map, void *x, int64_t dim, void *out, int64_t features, int32_t dtype, int32_t keys,
	rf_text *err);
/* Estimates of the kernel between the rows of x and y. */
int32_t rf_map_gram(uint64_t map, rf_array *x, rf_array *y, rf_array *out, int32_t workers, rf_text *err);
/* The exact kernel: {"kind": "gaussian", "scale": 2}. */
int32_t rf_kernel_gram(rf_string kernel, rf_array *x, rf_array *y, rf_array *out, rf_text *err);
/* Lists what exists. which: "families", "couplings" or "kernels". */
int32_t rf_catalog(rf_string which, rf_text *json, rf_text *err);

/* ---- Closed forms */

/* All formulas: [{"name", "reference", "inputs": [{"key", "type"}]}]. */
int32_t rf_formulas(rf_text *json, rf_text *err);
/* One formula; inputs and the value are JSON, infinities are "inf" and "-inf". */
int32_t rf_formula(rf_string name, rf_string inputs, rf_text *value, rf_text *err);
/* Moments of the estimate of a spec at pairs of rows: row i of x with row i of y. Row i of out (RF_F64) receives log
 * kernel, log mean, log |bias|, log variance, log mean squared error, and 1 if approximate. warning may be "". */
int32_t rf_moments(rf_string spec, rf_array *x, rf_array *y, rf_array *out, rf_text *warning, rf_text *err);

/* ---- Advice */

/* Recommends a feature map for queries x and keys y (NULL: x for both). options: {"kernel", "features", "target",
 * "per_token_ns", "positive", "loss", "measure", "unbiased", "families", "couplings", "rows", "draws", "brief",
 * "seed"}. The result is JSON: {"report", "html", "about", "error_name"}. */
int32_t rf_advise(rf_array *x, rf_array *y, rf_string options, uint64_t *job, rf_text *json, rf_text *err);

/* ---- Tables */

/* Makes a table of columns in the caller's memory. columns is a list with an object for each array: {"name", "sort":
 * "number" | "boolean" | "text" | "time", "levels": [...], "unit": nanoseconds}. Texts are codes of levels. Times are
 * integers since 1970 in units of "unit", or in days if it is 0. Missing values: NaN, a code outside of the levels, and
 * the smallest int64 as a time. */
int32_t rf_table_columns(rf_array *arrays, rf_string columns, uint64_t *table, rf_text *err);
/* Makes a table from an Arrow C stream, which is read to its end and released. info: {"rows", "columns": [names]}. */
int32_t rf_table_arrow(struct ArrowArrayStream *stream, uint64_t *table, rf_text *info, rf_text *err);

/* Puts the columns of two tables with the same number of rows side by side. The new table reads the memory of both:
 * release it before them. */
int32_t rf_table_join(uint64_t left, uint64_t right, uint64_t *table, rf_text *err);

/* ---- Models */

/* Fits a model. options is the JSON of tabular.Options. The result is a model and its report. */
int32_t rf_fit(uint64_t table, rf_string options, int32_t workers, uint64_t *job, uint64_t *model, rf_text *report,
	rf_text *err);
int32_t rf_model_read(void *bytes, int64_t size, uint64_t *model, rf_text *err);      /* a model file */
int32_t rf_model_write(uint64_t model, void **bytes, int64_t *size, rf_text *err);    /* free bytes with rf_free */
int32_t rf_model_info(uint64_t model, rf_text *json, rf_text *err);
/* Makes a predictor. options: {"columns": [columns of the tables], "probabilities", "scores", "variance", "interval",
 * "float32", "strict", "workers"}. info: {"columns": [columns of the predictions]}. */
int32_t rf_predictor_new(uint64_t model, rf_string options, uint64_t *predictor, rf_text *info, rf_text *err);
/* Predicts the rows of a table with the predictor's columns into out (RF_F64, rows contiguous). A class is given by its
 * number in the order of the model. surprises lists how the rows differ from the training data. */
int32_t rf_predict(uint64_t predictor, uint64_t table, rf_array *out, uint64_t *job, rf_text *surprises, rf_text *err);
/* The same for rows of numbers, one column of x for each column of the predictor. */
int32_t rf_predict_rows(uint64_t predictor, rf_array *x, rf_array *out, uint64_t *job, rf_text *surprises,
	rf_text *err);
/* The same for one row: columns numbers in x, outs numbers in out, as many as the predictor has. The fastest call. */
int32_t rf_predict_row(uint64_t predictor, double *x, int64_t columns, double *out, int64_t outs, rf_text *surprises,
	rf_text *err);

/* ---- Attention */

/* Chooses the method of every head for data like q, k and v. options: {"tol", "budget", "causal", "scale", "seed",
 * "online", "by_cost"}. The result is an attention and its JSON form. */
int32_t rf_attention_choose(rf_seq *q, rf_seq *k, rf_seq *v, rf_string options, int32_t workers, uint64_t *job,
	uint64_t *attention, rf_text *json, rf_text *err);
int32_t rf_attention_read(rf_string json, uint64_t *attention, rf_text *err);         /* the JSON form */
/* Writes the attention of q over k and v into out. attention = 0 is exact attention; only then causal and scale
 * (0: 1/sqrt(dim)) are used. report, if not NULL, receives counts of rows as JSON. */
int32_t rf_attention_run(uint64_t attention, rf_seq *q, rf_seq *k, rf_seq *v, rf_seq *out, int32_t causal,
	double scale, int32_t workers, uint64_t *job, rf_text *report, rf_text *err);

/* For tests: panics in the calling goroutine (where = 0) or in a worker (where = 1). The call must return an error. */
int32_t rf_test_panic(int32_t where, rf_text *err);

#ifdef __cplusplus
}
#endif
#endif
