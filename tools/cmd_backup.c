/*
 * backup: a consistent copy of the log, streamed by the daemon into a new file.
 */
#include "ctl.h"
#include "new_file.h"
#include "plain.h"
#include "progress.h"

#include <string.h>

int cmd_backup(struct ctl *c)
{
    const char *path = c->args.operands[0];
    struct new_file file;
    char shown[256];
    uint64_t seq = 0, bytes = 0;

    plain(path, shown, sizeof shown);
    int r = new_file_begin(&file, path);
    if (r < 0)
        return ctl_fail_with(c, r, "%s: %s", shown, strerror(-r));
    progress_begin("backup", "bytes");
    progress_follow(file.fd);
    int code = skade_backup(c->s, file.fd, &seq, &bytes);
    progress_end();
    if (code == 0)
        r = new_file_publish(&file);
    new_file_end(&file);
    if (code < 0)
        return ctl_fail(c, path, code);
    if (r < 0)
        return ctl_fail_with(c, r, "%s: %s", shown, strerror(-r));
    out_text(&c->out, path);
    out_seq(&c->out, seq);
    out_count(&c->out, bytes);
    return ctl_row(c);
}
