/* Computes unit_rows of what it reads: the numbers of rows and of columns as int64_t, then the elements of x and of scale as float. Writes the
   elements of the result. */
#include "unit_rows.h"

#include <stdio.h>
#include <stdlib.h>

static void *room(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
  if (!memory) exit(1);
  return memory;
}

static void *floats(uint64_t count) {
  void *memory = room(4 * count);
  if (fread(memory, 4, count, stdin) != count) exit(2);
  return memory;
}

int main(void) {
  int64_t dims[2];
  if (fread(dims, 8, 2, stdin) != 2) return 2;
  int64_t rows = dims[0], n = dims[1];
  uint64_t count = (uint64_t)(rows * n), arena_bytes = unit_rows_arena_bytes(rows, n);

  const void *inputs[UNIT_ROWS_INPUTS] = {[UNIT_ROWS_INPUT_X] = floats(count), [UNIT_ROWS_INPUT_SCALE] = floats((uint64_t)n)};
  float *y = room(4 * count);
  anyshape_output outputs[UNIT_ROWS_OUTPUTS] = {{y, 4 * count, 0}};
  anyshape_status status;
  if (unit_rows_run(room(arena_bytes), arena_bytes, inputs, outputs, rows, n, &status)) {
    fprintf(stderr, "%s\n", status.text);
    return 1;
  }
  fwrite(y, 4, count, stdout);
  return 0;
}
