/* elsewhere DAYS RELEASE COMMAND...: run a command, and all that it starts, on another day under another kernel.
 *
 * Agents come as static programs, too, which no LD_PRELOAD reaches. So each program is told at its start that
 * there is no vDSO, and then asks the kernel for the time, where we answer instead. Other clocks are left alone.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(125);
}

/* Stop for the tracer where the time of day or the name of the system is asked for, and nowhere else. */
static void filter_calls(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_uname, 7, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_time, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLOCK_REALTIME_COARSE, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("prctl");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("seccomp");
}

static void put(pid_t pid, unsigned long place, const void *data, size_t size) {
    struct iovec here = {(void *)data, size}, there = {(void *)place, size};
    if (place && process_vm_writev(pid, &here, 1, &there, 1, 0) < 0 && errno != ESRCH) fail("process_vm_writev");
}

/* Answer the call that a program is about to make, and let it skip the call. */
static void answer(pid_t pid, long seconds, const char *release) {
    struct user_regs_struct registers;
    struct timespec now;
    struct utsname names;
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers)) return;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += seconds;
    struct timeval rounded = {now.tv_sec, now.tv_nsec / 1000};
    unsigned long result = 0;
    switch (registers.orig_rax) {
    case SYS_uname:
        uname(&names);
        snprintf(names.release, sizeof names.release, "%s", release);
        put(pid, registers.rdi, &names, sizeof names);
        break;
    case SYS_clock_gettime:
        put(pid, registers.rsi, &now, sizeof now);
        break;
    case SYS_gettimeofday:
        put(pid, registers.rdi, &rounded, sizeof rounded);
        break;
    case SYS_time:
        put(pid, registers.rdi, &now.tv_sec, sizeof now.tv_sec);
        result = now.tv_sec;
    }
    registers.orig_rax = -1;
    registers.rax = result;
    ptrace(PTRACE_SETREGS, pid, 0, &registers);
}

/* Strike the vDSO from what a new program finds on its stack. */
static void hide_vdso(pid_t pid) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers)) return;
    unsigned long place = registers.rsp;
    place += 8 * (ptrace(PTRACE_PEEKDATA, pid, place, 0) + 2); /* the arguments, and their number */
    while (ptrace(PTRACE_PEEKDATA, pid, place, 0)) place += 8; /* the environment */
    for (place += 8;; place += 16) {
        long kind = ptrace(PTRACE_PEEKDATA, pid, place, 0);
        if (kind == AT_NULL) return;
        if (kind == AT_SYSINFO_EHDR) ptrace(PTRACE_POKEDATA, pid, place, AT_IGNORE);
    }
}

int main(int count, char **words) {
    if (count < 4) return fputs("usage: elsewhere DAYS RELEASE COMMAND...\n", stderr), 125;
    long seconds = atol(words[1]) * 24 * 60 * 60;
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        raise(SIGSTOP);
        filter_calls();
        execvp(words[3], words + 3);
        fail(words[3]);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, 0, options)) fail("ptrace");
    kill(child, SIGCONT);
    signal(SIGINT, SIG_IGN); /* for the command to decide */
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
        if (!WIFSTOPPED(status)) {
            if (pid == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int event = status >> 16, delivered = 0;
        if (event == PTRACE_EVENT_SECCOMP) answer(pid, seconds, words[2]);
        else if (event == PTRACE_EVENT_EXEC) hide_vdso(pid);
        else if (event == PTRACE_EVENT_STOP) {
            int stop = WSTOPSIG(status);
            if (stop == SIGSTOP || stop == SIGTSTP || stop == SIGTTIN || stop == SIGTTOU) {
                /* A group stop: it lasts until SIGCONT. A new thread's first stop looks the same, but is SIGTRAP. */
                ptrace(PTRACE_LISTEN, pid, 0, 0);
                continue;
            }
        } else if (event == 0) delivered = WSTOPSIG(status);
        ptrace(PTRACE_CONT, pid, 0, delivered);
    }
    return 125;
}
